#include "quantize/feedback/assumed_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gbcompress/artifact.h"
#include "quantize/matrix.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::normals;

LikelyInputs image(bool positive, std::vector<std::int64_t> kernel = {3, 3}) {
  return {.positive = positive, .kernel = std::move(kernel)};
}

TEST(AssumedModel, PiecesAreWholeChannels) {
  const auto pieces = [](std::vector<std::int64_t> kernel, std::int64_t cols) {
    return assumed_pieces(image(true, std::move(kernel)), cols);
  };
  ASSERT_TRUE(pieces({3, 3}, 576));
  EXPECT_EQ(pieces({3, 3}, 576)->count, 1);
  EXPECT_EQ(pieces({3, 3}, 1152)->count, 2);
  EXPECT_EQ(pieces({3, 3}, 1152)->cols, 576);
  EXPECT_EQ(pieces({3, 3}, 9)->count, 1);
  EXPECT_EQ(pieces({5, 5}, 25 * 29)->cols, 25);  // 29 channels are one piece or 29
  EXPECT_EQ(pieces({1, 1}, 64)->cols, 64);
  EXPECT_FALSE(pieces({1, 1}, 1));
  EXPECT_FALSE(assumed_pieces(image(false, {1, 1}), 64));
  EXPECT_FALSE(pieces({3, 3}, 10));
  EXPECT_FALSE(pieces({}, 576));
  EXPECT_FALSE(pieces({64, 64}, 64 * 64 * 3));
  EXPECT_FALSE(pieces({std::int64_t{1} << 40, std::int64_t{1} << 40}, 576));
}

/// Squared error of the outputs for an input that is 1 in one channel, 0 in the others.
double error_of_channels(const std::vector<float>& values, const CodedValues& coded,
                         std::size_t taps) {
  const std::vector<float> stored = coded_floats(coded);
  double error = 0;
  for (std::size_t i = 0; i < values.size(); i += taps) {
    double sum = 0;
    for (std::size_t j = i; j < i + taps; ++j)
      sum += static_cast<double>(values[j]) - static_cast<double>(stored[j]);
    error += sum * sum;
  }
  return error;
}

TEST(AssumedModel, ErrorsOfNeighborsCancelEachOther) {
  const IntegerGrid grid{16, 64 * 9, 3};
  const auto values = normals(static_cast<std::size_t>(grid.size()), 5);
  const LikelyInputs inputs = image(false);
  const auto pieces = assumed_pieces(inputs, grid.cols);
  ASSERT_TRUE(pieces);
  RoundingModel plain, assumed;
  plain.groups.resize(1);
  assumed.groups.push_back({assumed_factor(inputs, pieces->cols), nullptr});
  assumed.pieces = pieces->count;
  std::vector<std::int32_t> row_steps(16, 0);
  row_steps[3] = 8;
  const Rounding rounding{.step = nearest_step(0.5F), .row_steps = row_steps};
  const CodedValues near = round_within(grid, values, plain, rounding);
  const CodedValues kept = round_within(grid, values, assumed, rounding);
  EXPECT_EQ(kept.grid.rows, grid.rows);
  EXPECT_EQ(kept.grid.cols, grid.cols);
  EXPECT_EQ(kept.row_steps, row_steps);
  EXPECT_LT(error_of_channels(values, kept, 9), 0.4 * error_of_channels(values, near, 9));
}

TEST(AssumedModel, PositiveInputsShareAMean) {
  const IntegerGrid grid{16, 32 * 9, 3};
  const auto values = normals(static_cast<std::size_t>(grid.size()), 6);
  const Rounding rounding{.step = nearest_step(0.5F)};
  const auto error = [&](bool positive) {
    RoundingModel model;
    model.groups.push_back({assumed_factor(image(positive), grid.cols), nullptr});
    return error_of_channels(values, round_within(grid, values, model, rounding),
                             static_cast<std::size_t>(grid.cols));
  };
  EXPECT_LT(error(true), 0.5 * error(false));
}

}  // namespace
}  // namespace gbcompress
