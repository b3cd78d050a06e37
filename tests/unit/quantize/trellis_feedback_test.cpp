/// Error feedback to dependent integers: column_order(), Beam, round_dependent().
#include "quantize/rounding/trellis_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codec/lanes/layout.h"
#include "gbcompress/error.h"
#include "moments.h"

namespace gbcompress {
namespace {

using testing::moments;
using testing::normals;

constexpr double kDamp = 0.02;

struct Made {
  Made(std::int64_t rows, std::int64_t cols, bool lanes, std::uint64_t seed = 1)
      : grid{.rows = rows, .cols = cols, .dependent = true, .lanes = lanes},
        values(normals(rows * cols, seed)),
        moment(moments(cols, cols + 20, seed + 10)),
        order(*column_order({&grid, 1})) {
    std::vector<double> ordered;
    for (const std::int64_t i : order.columns)
      for (const std::int64_t j : order.columns)
        ordered.push_back(moment[static_cast<std::size_t>(i * cols + j)]);
    factor.emplace(ordered, cols, kDamp);
  }

  DependentIntegers round(const Rounding& rounding) const {
    return round_dependent(grid, values, *factor, order, rounding);
  }
  std::vector<float> stored(const DependentIntegers& chosen, const Rounding& rounding) const {
    CodedValues coded{.grid = grid, .step = rounding.step};
    coded.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
    coded.integers = chosen.integers;
    return coded_floats(coded);
  }
  /// tr(E A E') with A = H / mean + damp I.
  double loss(const std::vector<float>& stored) const {
    const auto n = static_cast<std::size_t>(grid.cols);
    double mean = 0, sum = 0;
    for (std::size_t j = 0; j < n; ++j) mean += moment[j * n + j] / static_cast<double>(n);
    std::vector<double> e(n);
    for (std::size_t row = 0; row < values.size(); row += n) {
      for (std::size_t j = 0; j < n; ++j)
        e[j] = static_cast<double>(values[row + j]) - static_cast<double>(stored[row + j]);
      for (std::size_t j = 0; j < n; ++j) {
        sum += kDamp * e[j] * e[j];
        for (std::size_t k = 0; k < n; ++k) sum += e[j] * moment[j * n + k] / mean * e[k];
      }
    }
    return sum;
  }

  IntegerGrid grid;
  std::vector<float> values;
  std::vector<double> moment;
  ColumnOrder order;
  std::optional<UpperFactor> factor;
};

TEST(ColumnOrder, GoesLaneByLaneWhereRowsHaveThemInTheSameColumns) {
  const IntegerGrid lanes{.rows = 10, .cols = 192, .dependent = true, .lanes = true};
  const auto order = column_order({&lanes, 1});
  ASSERT_TRUE(order);
  ASSERT_EQ(order->groups.size(), 64u);
  EXPECT_EQ(order->groups[5].first, 15);
  EXPECT_EQ(order->groups[5].lines, codec::lanes::Shape(lanes).block_lines);
  EXPECT_EQ(std::vector<std::int64_t>(order->columns.begin() + 15, order->columns.begin() + 18),
            (std::vector<std::int64_t>{5, 69, 133}));
  const IntegerGrid apart{.rows = 10, .cols = 100, .dependent = true, .lanes = true};
  EXPECT_FALSE(column_order({&apart, 1}));
  const IntegerGrid alone{.rows = 10, .cols = 192};
  EXPECT_FALSE(column_order({&alone, 1}));
  const std::vector<IntegerGrid> two{{.rows = 7, .cols = 3, .dependent = true},
                                     {.rows = 7, .cols = 2, .dependent = true}};
  const auto joint = column_order(two);
  ASSERT_TRUE(joint);
  ASSERT_EQ(joint->groups.size(), 2u);
  EXPECT_EQ(joint->groups[1].first, 3);
  std::vector<std::int64_t> natural(5);
  std::iota(natural.begin(), natural.end(), 0);
  EXPECT_EQ(joint->columns, natural);
}

TEST(TrellisFeedback, SaysWhatTheIntegersLose) {
  // The last one has two blocks of lanes.
  for (const Made& made :
       {Made(37, 45, false), Made(50, 128, true), Made((1 << 20) / 64 + 9, 64, true)}) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(made.grid.rows));
    for (std::size_t i = 0; i < rows.size(); i += 3) rows[i] = 8;
    const Rounding rounding{.step = -16, .row_steps = rows};
    const DependentIntegers chosen = made.round(rounding);
    const auto stored = made.stored(chosen, rounding);
    const double loss = made.loss(stored);
    EXPECT_NEAR(chosen.loss, loss, 1e-3 * loss);
    double error = 0;
    for (std::size_t i = 0; i < stored.size(); ++i)
      error += std::pow(static_cast<double>(stored[i] - made.values[i]), 2);
    EXPECT_NEAR(chosen.error, error, 1e-4 * error);
    Rounding many = rounding;
    many.threads = 3;
    EXPECT_EQ(made.round(many).integers, chosen.integers);
  }
}

/// Bits of a number that independent integers need more at the same loss.
double gain(const Made& made, CodecProfile profile, int step) {
  const auto bits_of = [&](const IntegerGrid& grid, std::span<const std::int32_t> integers) {
    IntegerEncoder encoder(profile);
    encoder.add(grid, integers);
    return 8 * static_cast<double>(encoder.finish().size()) / static_cast<double>(grid.size());
  };
  const IntegerGrid independent{made.grid.rows, made.grid.cols, 0};
  SecondOrder model{std::make_shared<const UpperFactor>(made.moment, made.grid.cols, kDamp),
                    nullptr};
  double loss = 0;
  const CodedValues nearest =
      round_with_feedback(independent, made.values, model, {.step = step}, &loss);
  const DependentIntegers chosen = made.round({.step = step});
  return bits_of(independent, nearest.integers) - bits_of(made.grid, chosen.integers) +
         std::log2(loss / chosen.loss) / 2;
}

TEST(TrellisFeedback, SavesBitsAtTheSameLoss) {
  EXPECT_GT(gain(Made(150, 100, false), CodecProfile::kSmall, -20), 0.12);
  EXPECT_GT(gain(Made(300, 192, true), CodecProfile::kLanes, -20), 0.12);
}

TEST(TrellisFeedback, RefusesWhatDoesNotFit) {
  const Made made(6, 5, false);
  const auto round = [&](std::span<const float> values, const Rounding& rounding) {
    round_dependent(made.grid, values, *made.factor, made.order, rounding);
  };
  EXPECT_THROW(round(std::span(made.values).first(25), {}), Error);
  const std::vector<std::int32_t> rows(5);
  EXPECT_THROW(round(made.values, {.row_steps = rows}), Error);
  std::vector<float> wrong = made.values;
  wrong[7] = NAN;
  EXPECT_THROW(round(wrong, {}), Error);
  EXPECT_THROW(round(made.values, {.step = -16 * 40}), Error);
}

}  // namespace
}  // namespace gbcompress
