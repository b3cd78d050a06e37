#include "quantize/pieces.h"

#include <algorithm>

#include "artifact/sections/elements.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"

namespace gbcompress {
namespace {

using codec::lanes::Shape;

/// Of tensors with more numbers, pages of pieces that are done are given back one by one.
constexpr std::int64_t kManyNumbers = 1 << 25;

/// Some rows of a tensor of a real type.
std::vector<float> numbers_in(const TensorEntry& tensor, std::int64_t first, std::int64_t count) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  const auto bytes = tensor.bytes.subspan(static_cast<std::size_t>(first) * size,
                                          static_cast<std::size_t>(count) * size);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  floats_of(bytes, tensor.dtype, numbers);
  check_mapped(bytes);
  return numbers;
}

/// Part of a list with one entry a row, or nothing of an empty one.
template <typename T>
std::vector<T> rows_in(const std::vector<T>& all, std::size_t first, std::size_t count) {
  if (all.empty()) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

bool MatrixPieces::fits(const TensorPlan& tensor) noexcept {
  const IntegerGrid& grid = tensor.grid;
  return grid.lanes && tensor.axis < 0 && !tensor.base && Shape(grid).width == grid.cols &&
         grid.rows > 1 && !tensor.facts.sizes.empty();
}

MatrixPieces::MatrixPieces(const TensorPlan& tensor) : tensor_(tensor), shape_(tensor.grid) {
  const MatrixFacts& facts = tensor.facts;
  for (std::size_t row = 0; row < facts.sizes.size(); ++row) {
    const std::int32_t offset = facts.row_steps.empty() ? 0 : facts.row_steps[row];
    finest_ = std::max(finest_, kMinStep - offset);
    if (facts.sizes[row].largest > 0)
      finest_ = std::max(finest_, finest_of_row(facts.sizes[row].largest) - offset);
  }
}

MatrixPieces::Piece MatrixPieces::choose_piece(std::int64_t block, int step,
                                               Quantizer quantizer) const {
  const MatrixFacts& facts = tensor_.facts;
  const std::int64_t numbers = shape_.size(block);
  IntegerGrid grid = tensor_.grid;
  grid.rows = numbers / grid.cols;
  const auto first = static_cast<std::size_t>(block * shape_.block_lines);
  const auto count = static_cast<std::size_t>(grid.rows);
  const StepMatrix matrix(grid, numbers_in(*tensor_.source, shape_.first(block), numbers),
                          rows_in(facts.row_steps, first, count),
                          rows_in(facts.sizes, first, count));
  StepMatrix::Chosen chosen = matrix.choose(step, quantizer, 1);
  Piece piece{pack_block(chosen.values.integers), std::move(chosen.values.row_steps), chosen.error};
  // A row by itself has its own step instead of an offset.
  if (chosen.values.step != step) piece.row_steps = {chosen.values.step - step};
  if (tensor_.facts.numbers > kManyNumbers) {
    const auto size = static_cast<std::size_t>(dtype_bits(tensor_.source->dtype)) / 8;
    release_pages(
        tensor_.source->bytes.subspan(static_cast<std::size_t>(shape_.first(block)) * size,
                                      static_cast<std::size_t>(numbers) * size));
  }
  return piece;
}

MatrixPieces::Chosen MatrixPieces::choose(int step, Quantizer quantizer, int threads) const {
  std::vector<Piece> pieces(static_cast<std::size_t>(shape_.blocks()));
  parallel_tasks(threads, shape_.blocks(), [&](std::int64_t block) {
    pieces[static_cast<std::size_t>(block)] = choose_piece(block, step, quantizer);
  });
  Chosen chosen{.form = {.grid = tensor_.grid, .step = step}};
  chosen.form.grid.dependent = quantizer == Quantizer::kTrellis;
  chosen.form.grid.lanes = chosen.form.grid.dependent;
  double error = 0;
  bool differ = false;
  for (const Piece& piece : pieces) {
    error += piece.error;
    differ = differ || !piece.row_steps.empty();
  }
  chosen.relative_error = error / tensor_.facts.squares;
  if (differ) {
    std::vector<std::int32_t>& offsets = chosen.form.row_steps;
    for (std::size_t block = 0; block < pieces.size(); ++block) {
      const std::vector<std::int32_t>& own = pieces[block].row_steps;
      offsets.insert(offsets.end(), own.begin(), own.end());
      const auto rows = static_cast<std::size_t>(shape_.size(static_cast<std::int64_t>(block)) /
                                                 tensor_.grid.cols);
      if (own.empty()) offsets.resize(offsets.size() + rows);
    }
    chosen.blocks = pack_grid({1, tensor_.grid.rows, 0}, offsets);
  }
  for (Piece& piece : pieces) chosen.blocks.push_back(std::move(piece.block));
  return chosen;
}

}  // namespace gbcompress
