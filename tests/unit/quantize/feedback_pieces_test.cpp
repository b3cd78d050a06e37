/// Matrices that are rounded with error feedback in pieces of whole rows.
#include <gtest/gtest.h>

#include <cmath>

#include "moments.h"
#include "quantize/matrix.h"
#include "quantize/pieces.h"

namespace gbcompress {
namespace {

using codec::lanes::Shape;
using testing::moments;
using testing::normals;

constexpr std::int64_t kRows = 9000, kCols = 128;  // two pieces
constexpr std::size_t kZeroRow = 500, kLargeRow = 8500;

/// A row of zeros, and one whose values are far below its outlier.
class Allocated {
 public:
  Allocated() : values_(normals(kRows * kCols, 7)) {
    std::fill_n(values_.begin() + kZeroRow * kCols, kCols, 0.0f);
    for (std::size_t j = 0; j < kCols; ++j) values_[kLargeRow * kCols + j] *= 1e-3f;
    values_[kLargeRow * kCols + 17] = 30;
    source_ = {.name = "w",
               .dtype = DType::kF32,
               .shape = {kRows, kCols},
               .bytes = std::as_bytes(std::span(values_))};
    allocation_.source = &source_;
    allocation_.kind = WeightKind::kMatrix;
    allocation_.grid = {kRows, kCols, 0};
    allocation_.facts =
        matrix_facts(allocation_.grid, sizes_of_rows(allocation_.grid, values_), false);
    allocation_.grid.lanes = true;
    for (const double value : moments(kCols, kCols + 20, 3))
      statistics_.input_moment.push_back(static_cast<float>(value));
  }
  const TensorAllocation& allocation() const { return allocation_; }
  const std::vector<float>& values() const { return values_; }
  IntegerGrid grid(bool dependent) const {
    IntegerGrid grid = allocation_.grid;
    grid.dependent = grid.lanes = dependent;
    return grid;
  }
  RoundingModel model(bool dependent) const {
    const IntegerGrid own = grid(true);
    return rounding_model("w", statistics_, kRows, kCols, {}, {.two_sided = false},
                          {.order = dependent ? column_order({&own, 1}) : nullptr});
  }
  /// Cost of what is lost, over that of zeros.
  double loss(const RoundingModel& model, const std::vector<float>& stored) const {
    double lost = 0, zeros = 0;
    std::vector<float> error(kCols);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto own = std::span(values_).subspan(row * kCols, kCols);
      for (std::size_t j = 0; j < kCols; ++j) error[j] = own[j] - stored[row * kCols + j];
      lost += row_loss(model, row, kRows, error);
      zeros += row_loss(model, row, kRows, own);
    }
    return lost / zeros;
  }

 private:
  std::vector<float> values_;
  TensorEntry source_;
  TensorAllocation allocation_;
  TensorStatistics statistics_;
};

MatrixPieces::FeedbackSetup setup_of(const RoundingModel& model, int step) {
  return {.model = model,
          .dependent = model.order != nullptr,
          .rounding = {.step = step, .paths = 4},
          .most = 1,
          .zeros = true};
}

CodedValues coded_of(const MatrixPieces::Chosen& chosen) {
  CodedValues coded = chosen.form;
  std::vector<IntegerGrid> grids = {chosen.form.grid};
  if (!chosen.form.row_steps.empty()) grids.insert(grids.begin(), {1, kRows, 0});
  std::vector<std::int32_t> room;
  visit_packed(
      grids,
      [&](std::size_t block, PackedBlock&) -> std::span<const std::byte> {
        return chosen.blocks[block];
      },
      [&](const IntegerGrid& grid, const PackedGrid& packed) {
        coded.integers.clear();
        for (std::int64_t block = 0; block < Shape(grid).blocks(); ++block) {
          const auto values = packed.get(block, room);
          coded.integers.insert(coded.integers.end(), values.begin(), values.end());
        }
      });
  return coded;
}

TEST(FeedbackPieces, NearestIntegersAreThoseOfTheWhole) {
  const Allocated matrix;
  const RoundingModel model = matrix.model(false);
  const int step = nearest_step(0.5f);
  CodedValues expected = round_within(matrix.grid(false), matrix.values(), model, {.step = step});
  const CodedValues found =
      coded_of(MatrixPieces(matrix.allocation()).round(setup_of(model, step), 2));
  ASSERT_EQ(found.integers.size(), expected.integers.size());
  std::size_t differ = 0;
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t j = 0; j < kCols; ++j)
      differ +=
          row != kLargeRow && found.integers[row * kCols + j] != expected.integers[row * kCols + j];
  EXPECT_EQ(differ, 0u);
  EXPECT_EQ(found.step, expected.step);
}

TEST(FeedbackPieces, DependentIntegersLoseNoMoreThanThoseOfTheWhole) {
  const Allocated matrix;
  const RoundingModel model = matrix.model(true);
  const int step = nearest_step(0.5f);
  const CodedValues expected =
      round_within(matrix.grid(true), matrix.values(), model, {.step = step, .paths = 4});
  const MatrixPieces pieces(matrix.allocation());
  const MatrixPieces::Chosen one = pieces.round(setup_of(model, step), 1);
  const MatrixPieces::Chosen three = pieces.round(setup_of(model, step), 3);
  EXPECT_EQ(one.blocks, three.blocks);
  EXPECT_EQ(one.relative_error, three.relative_error);
  const CodedValues found = coded_of(one);
  EXPECT_TRUE(found.grid.dependent && found.grid.lanes);
  const std::vector<float> stored = coded_floats(found);
  EXPECT_LT(matrix.loss(model, stored), 1.002 * matrix.loss(model, coded_floats(expected)));
  const auto bits = [](const CodedValues& values) {
    return estimated_bits(CodecProfile::kLanes, values.grid, values.integers);
  };
  EXPECT_LT(bits(found), 1.002 * bits(expected));
  double error = 0;
  for (std::size_t i = 0; i < stored.size(); ++i)
    error += std::pow(static_cast<double>(matrix.values()[i] - stored[i]), 2);
  EXPECT_NEAR(one.relative_error, error / squares_of(matrix.values()), 1e-9);
}

TEST(FeedbackPieces, ARowThatLosesTooMuchGetsFinerSteps) {
  const Allocated matrix;
  for (const bool dependent : {false, true}) {
    const RoundingModel model = matrix.model(dependent);
    MatrixPieces::FeedbackSetup setup = setup_of(model, nearest_step(0.5f));
    setup.zeros = false;
    setup.most = 0.5;
    const CodedValues found = coded_of(MatrixPieces(matrix.allocation()).round(setup, 2));
    ASSERT_EQ(found.row_steps.size(), static_cast<std::size_t>(kRows));
    EXPECT_LT(found.row_steps[kLargeRow], 0);
    const std::vector<float> stored = coded_floats(found);
    EXPECT_TRUE(rows_beyond(matrix.grid(false), matrix.allocation().facts.sizes, matrix.values(),
                            stored, 0.5)
                    .empty());
  }
}

TEST(FeedbackPieces, ModelsOfSeveralMatricesAndOfRowsAreLeftToTheWhole) {
  const Allocated matrix;
  RoundingModel model = matrix.model(true);
  EXPECT_TRUE(MatrixPieces::independent(model));
  RoundingModel other = model;
  other.second = 1;
  EXPECT_FALSE(MatrixPieces::independent(other)) << "a pair";
  other = model;
  other.groups.push_back(other.groups[0]);
  EXPECT_FALSE(MatrixPieces::independent(other)) << "groups";
  other = model;
  other.groups[0].rows = other.groups[0].columns;
  EXPECT_FALSE(MatrixPieces::independent(other)) << "a factor of the rows";
  other = model;
  other.pieces = 2;
  EXPECT_FALSE(MatrixPieces::independent(other)) << "pieces of rows";
}

}  // namespace
}  // namespace gbcompress
