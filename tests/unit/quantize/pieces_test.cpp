/// Matrices that are quantized in pieces of whole rows.
#include "quantize/pieces.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quantize/matrix.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using codec::lanes::Shape;
using testing::normals;

constexpr std::int64_t kPiecesRows = 2500, kPiecesCols = 1000;  // three pieces

/// Rows of falling sizes, one of them 0, and an outlier.
std::vector<float> values_in_pieces() {
  std::vector<float> values = normals(kPiecesRows * kPiecesCols, 7);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= std::exp2(-static_cast<float>(i / kPiecesCols) / 500);
  std::fill_n(values.begin() + 5 * kPiecesCols, kPiecesCols, 0.0f);
  values[1900 * kPiecesCols + 17] = 40;
  return values;
}

/// A tensor and its allocation.
class Allocated {
 public:
  explicit Allocated(const std::vector<float>& values)
      : source_{.name = "w",
                .dtype = DType::kF32,
                .shape = {kPiecesRows, kPiecesCols},
                .bytes = std::as_bytes(std::span(values))} {
    allocation_.source = &source_;
    allocation_.kind = WeightKind::kMatrix;
    allocation_.grid = {kPiecesRows, kPiecesCols, 0};
    allocation_.facts =
        matrix_facts(allocation_.grid, sizes_of_rows(allocation_.grid, values), true);
    allocation_.grid.lanes = true;
  }
  const TensorAllocation& allocation() const { return allocation_; }

 private:
  TensorEntry source_;
  TensorAllocation allocation_;
};

std::vector<std::int32_t> integers_of(const MatrixPieces::Chosen& chosen) {
  std::vector<IntegerGrid> grids = {chosen.form.grid};
  if (!chosen.form.row_steps.empty()) grids.insert(grids.begin(), {1, kPiecesRows, 0});
  std::vector<std::int32_t> integers, room;
  visit_packed(
      grids,
      [&](std::size_t block, PackedBlock&) -> std::span<const std::byte> {
        return chosen.blocks[block];
      },
      [&](const IntegerGrid& grid, const PackedGrid& packed) {
        integers.clear();
        for (std::int64_t block = 0; block < Shape(grid).blocks(); ++block) {
          const auto values = packed.get(block, room);
          integers.insert(integers.end(), values.begin(), values.end());
        }
      });
  return integers;
}

TEST(MatrixPieces, NearestIntegersAreThoseOfTheWhole) {
  const std::vector<float> values = values_in_pieces();
  const Allocated matrix(values);
  ASSERT_TRUE(MatrixPieces::fits(matrix.allocation()));
  const MatrixPieces pieces(matrix.allocation());
  const MatrixFacts& facts = matrix.allocation().facts;
  const StepMatrix whole(matrix.allocation().grid, values, facts.row_steps, facts.sizes);
  EXPECT_EQ(pieces.finest(), whole.finest());
  for (const int step : {-64, -16, 20}) {
    const MatrixPieces::Chosen chosen = pieces.choose(step, Quantizer::kNearest, 2);
    const StepMatrix::Chosen expected = whole.choose(step, Quantizer::kNearest, 1);
    EXPECT_EQ(chosen.form.step, expected.values.step);
    EXPECT_EQ(chosen.form.row_steps, expected.values.row_steps) << step;
    EXPECT_EQ(integers_of(chosen), expected.values.integers) << step;
    EXPECT_NEAR(chosen.relative_error, expected.relative_error, 1e-9) << step;
  }
}

TEST(MatrixPieces, AnyNumberOfThreadsChoosesTheSame) {
  const std::vector<float> values = values_in_pieces();
  const Allocated matrix(values);
  const MatrixPieces pieces(matrix.allocation());
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis}) {
    const MatrixPieces::Chosen one = pieces.choose(-20, quantizer, 1);
    const MatrixPieces::Chosen three = pieces.choose(-20, quantizer, 3);
    EXPECT_EQ(one.blocks, three.blocks);
    EXPECT_EQ(one.relative_error, three.relative_error);
  }
}

TEST(MatrixPieces, ATrellisLosesNoMoreThanInTheWhole) {
  const std::vector<float> values = values_in_pieces();
  const Allocated matrix(values);
  const MatrixFacts& facts = matrix.allocation().facts;
  const StepMatrix whole(matrix.allocation().grid, values, facts.row_steps, facts.sizes);
  const MatrixPieces::Chosen chosen =
      MatrixPieces(matrix.allocation()).choose(-20, Quantizer::kTrellis, 2);
  const StepMatrix::Chosen expected = whole.choose(-20, Quantizer::kTrellis, 2);
  EXPECT_TRUE(chosen.form.grid.dependent && chosen.form.grid.lanes);
  EXPECT_LT(chosen.relative_error, 1.002 * expected.relative_error);
  const double bits = estimated_bits(CodecProfile::kLanes, chosen.form.grid, integers_of(chosen));
  EXPECT_LT(bits, 1.001 * estimated_bits(CodecProfile::kLanes, expected.values.grid,
                                         expected.values.integers));
}

TEST(MatrixPieces, RowsThatAreNoPiecesAreLeftToTheWhole) {
  const std::vector<float> values = values_in_pieces();
  TensorAllocation allocation = Allocated(values).allocation();
  allocation.axis = 1;
  EXPECT_FALSE(MatrixPieces::fits(allocation)) << "cosines";
  allocation.axis = -1;
  allocation.grid = {1, kPiecesRows * kPiecesCols, 0};
  allocation.grid.lanes = true;
  EXPECT_FALSE(MatrixPieces::fits(allocation)) << "one row";
}

}  // namespace
}  // namespace gbcompress
