#include "quantize/matrix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::normals;

double error_of(const std::vector<float>& values, const CodedValues& coded) {
  const std::vector<float> back = coded_floats(coded);
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(back[i]) - static_cast<double>(values[i]), 2);
    squares += std::pow(static_cast<double>(values[i]), 2);
  }
  return error / squares;
}

TEST(StepMatrix, SaysTheErrorOfTheDecodedNumbers) {
  auto values = normals(64 * 200, 1, 0.05f);
  for (std::size_t i = 0; i < 200; ++i) values[i] *= 30;  // one loud row
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis})
    for (const bool rows : {false, true}) {
      const IntegerGrid grid{64, 200, 0};
      const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), rows);
      EXPECT_EQ(facts.row_steps.empty(), !rows);
      const StepMatrix matrix(grid, values, facts.row_steps);
      for (const int step : {-90, -60, -40}) {
        const auto chosen = matrix.choose(step, quantizer, 1);
        EXPECT_NEAR(chosen.relative_error / error_of(values, chosen.values), 1, 1e-4);
        EXPECT_EQ(matrix.choose(step, quantizer, 3).values.integers, chosen.values.integers);
      }
    }
}

TEST(StepMatrix, GivesRowsStepsByTheRootOfTheirSize) {
  auto values = normals(8 * 400, 2);
  for (std::size_t i = 0; i < 400; ++i) values[i] *= 16;
  for (std::size_t i = 400; i < 800; ++i) values[i] = 0;
  const MatrixFacts facts = matrix_facts({8, 400, 0}, sizes_of_rows({8, 400, 0}, values), true);
  ASSERT_EQ(facts.row_steps.size(), 8u);
  // 16 times as large: 4 times the step, 2 octaves or 32 sixteenths, give or take the row's sample.
  EXPECT_NEAR(facts.row_steps[0] - facts.row_steps[7], 32, 4);
  EXPECT_EQ(facts.row_steps[1], 0);  // zeros
  for (const std::int32_t offset : facts.row_steps) EXPECT_EQ(offset % 4, 0);
  EXPECT_TRUE(
      matrix_facts({1, 3200, 0}, sizes_of_rows({1, 3200, 0}, values), true).row_steps.empty());
}

TEST(StepMatrix, RowsThatAreScaledLaterHaveStepsBetweenTheirOwnAndTheProducts) {
  const IntegerGrid grid{8, 400, 0};
  const auto values = normals(8 * 400, 4);
  const std::vector<float> scales = {4, 1, 1, 16, 1, 0.25F, 1, 1};
  const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true, scales);
  ASSERT_EQ(facts.row_steps.size(), 8u);
  // Rows are alike: their steps are those of the scales, to the power of -1/4.
  EXPECT_NEAR(facts.row_steps[0] - facts.row_steps[1], -8, 4);
  EXPECT_NEAR(facts.row_steps[3] - facts.row_steps[1], -16, 4);
  EXPECT_NEAR(facts.row_steps[5] - facts.row_steps[1], 8, 4);
  double sum = 0;
  for (const std::int32_t step : facts.row_steps) sum += step;
  EXPECT_NEAR(sum / 8, 0, 2);  // the tensor's own step stays
  EXPECT_TRUE(matrix_facts(grid, sizes_of_rows(grid, values), false, scales).row_steps.empty());
  const std::vector<float> none(8, 0), few(7, 2);
  const auto plain = matrix_facts(grid, sizes_of_rows(grid, values), true).row_steps;
  EXPECT_EQ(matrix_facts(grid, sizes_of_rows(grid, values), true, none).row_steps, plain);
  EXPECT_EQ(matrix_facts(grid, sizes_of_rows(grid, values), true, few).row_steps, plain);
}

TEST(StepMatrix, TheFinestStepsStayWithinTheCodersBounds) {
  auto values = normals(40 * 50, 3);
  values[7] = 5000;
  const StepMatrix matrix({40, 50, 0}, values, {});
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis}) {
    const auto chosen = matrix.choose(matrix.finest(), quantizer, 1);
    IntegerEncoder encoder(CodecProfile::kSmall);
    EXPECT_NO_THROW(encoder.add(chosen.values.grid, chosen.values.integers));
    EXPECT_LT(chosen.relative_error, 1e-9);
    EXPECT_GT(std::abs(chosen.values.integers[7]), kMaxMagnitude / 2);
  }
}

TEST(StepMatrix, SamplesAreRowsOfTheWhole) {
  const auto values = normals(100 * 30, 4);
  std::vector<std::int32_t> rows(100);
  for (int i = 0; i < 100; ++i) rows[static_cast<std::size_t>(i)] = 4 * (i % 3);
  MatrixFacts facts;
  facts.row_steps = rows;
  const StepMatrix some = sample_of({100, 30, 0}, values, facts, 300);
  EXPECT_EQ(some.grid().rows, 10);
  EXPECT_EQ(some.row_steps().size(), 10u);
  EXPECT_EQ(sample_of({100, 30, 0}, values, facts, 1 << 20).grid().rows, 100);
  EXPECT_EQ(sample_of({1, 3000, 40}, values, {}, 30).grid().stride, 0);
}

}  // namespace
}  // namespace gbcompress
