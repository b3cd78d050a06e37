#include "quantize/pieces.h"

#include <algorithm>

#include "artifact/sections/elements.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/feedback/finer_rows.h"

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

bool MatrixPieces::fits(const TensorAllocation& tensor) noexcept {
  const IntegerGrid& grid = tensor.grid;
  return grid.lanes && tensor.axis < 0 && !tensor.base && Shape(grid).width == grid.cols &&
         grid.rows > 1 && !tensor.facts.sizes.empty();
}

MatrixPieces::MatrixPieces(const TensorAllocation& tensor) : tensor_(tensor), shape_(tensor.grid) {
  const MatrixFacts& facts = tensor.facts;
  for (std::size_t row = 0; row < facts.sizes.size(); ++row) {
    const std::int32_t offset = facts.row_steps.empty() ? 0 : facts.row_steps[row];
    finest_ = std::max(finest_, kMinStep - offset);
    if (facts.sizes[row].largest > 0)
      finest_ = std::max(finest_, finest_of_row(facts.sizes[row].largest) - offset);
  }
}

MatrixPieces::Part MatrixPieces::part_of(std::int64_t block) const {
  const std::int64_t numbers = shape_.size(block);
  Part part{.grid = tensor_.grid,
            .first = static_cast<std::size_t>(block * shape_.block_lines),
            .values = numbers_in(*tensor_.source, shape_.first(block), numbers),
            .sizes = {}};
  part.grid.rows = numbers / part.grid.cols;
  part.sizes = rows_in(tensor_.facts.sizes, part.first, static_cast<std::size_t>(part.grid.rows));
  return part;
}

void MatrixPieces::release(std::int64_t block) const {
  if (tensor_.facts.numbers <= kManyNumbers) return;
  const auto size = static_cast<std::size_t>(dtype_bits(tensor_.source->dtype)) / 8;
  release_pages(tensor_.source->bytes.subspan(static_cast<std::size_t>(shape_.first(block)) * size,
                                              static_cast<std::size_t>(shape_.size(block)) * size));
}

MatrixPieces::Piece MatrixPieces::choose_piece(std::int64_t block, int step,
                                               Quantizer quantizer) const {
  Part part = part_of(block);
  std::vector<std::int32_t> row_steps =
      rows_in(tensor_.facts.row_steps, part.first, static_cast<std::size_t>(part.grid.rows));
  const StepMatrix matrix(part.grid, std::move(part.values), std::move(row_steps),
                          std::move(part.sizes));
  StepMatrix::Chosen chosen = matrix.choose(step, quantizer, 1);
  Piece piece{pack_block(chosen.values.integers), std::move(chosen.values.row_steps), chosen.error};
  // A row by itself has its own step instead of an offset.
  if (chosen.values.step != step) piece.row_steps = {chosen.values.step - step};
  release(block);
  return piece;
}

MatrixPieces::Chosen MatrixPieces::choose(int step, Quantizer quantizer, int threads) const {
  CodedValues form{.grid = tensor_.grid, .step = step};
  form.grid.dependent = quantizer == Quantizer::kTrellis;
  form.grid.lanes = form.grid.dependent;
  return joined(std::move(form), threads,
                [&](std::int64_t block) { return choose_piece(block, step, quantizer); });
}

bool MatrixPieces::independent(const RoundingModel& model) noexcept {
  return model.groups.size() == 1 && !model.groups[0].rows && !model.second && model.pieces == 1;
}

MatrixPieces::Piece MatrixPieces::round_piece(std::int64_t block,
                                              const FeedbackSetup& setup) const {
  Part part = part_of(block);
  part.grid.dependent = part.grid.lanes = setup.dependent;
  const auto rows = part.sizes.size(), cols = static_cast<std::size_t>(part.grid.cols);
  const std::span<const std::int32_t> all = setup.rounding.row_steps;
  std::vector<std::int32_t> row_steps;
  if (!all.empty()) {
    const auto own = all.subspan(part.first, rows);
    row_steps.assign(own.begin(), own.end());
  }
  CodedValues coded;
  std::vector<float> stored, error(cols);
  const auto counts = [&](std::size_t row) {
    if (!setup.zeros) return true;
    const auto values = std::span(part.values).subspan(row * cols, cols);
    for (std::size_t j = 0; j < cols; ++j) error[j] = values[j] - stored[row * cols + j];
    return is_worse_than_zeros(setup.model, part.first + row, tensor_.grid.rows, values, error);
  };
  for (int tries = 0; tries <= kMostFiner; ++tries) {
    throw_if_interrupted();
    Rounding rounding = setup.rounding;
    rounding.row_steps = row_steps;
    rounding.threads = 1;
    coded = round_within(part.grid, part.values, setup.model, rounding);
    stored = coded_floats(coded);
    if (!finer_rows({coded, part.sizes, part.values, stored}, setup.most, counts, row_steps)) break;
  }
  Piece piece{pack_block(coded.integers), std::move(coded.row_steps), 0};
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto off = static_cast<double>(part.values[i] - stored[i]);
    piece.error += off * off;
  }
  if (const int finer = coded.step - setup.rounding.step; finer != 0) {
    piece.row_steps.resize(rows);
    for (std::int32_t& step : piece.row_steps) step += finer;
  }
  release(block);
  return piece;
}

MatrixPieces::Chosen MatrixPieces::round(const FeedbackSetup& setup, int threads) const {
  CodedValues form{.grid = tensor_.grid, .step = setup.rounding.step};
  form.grid.dependent = form.grid.lanes = setup.dependent;
  return joined(std::move(form), threads,
                [&](std::int64_t block) { return round_piece(block, setup); });
}

MatrixPieces::Chosen MatrixPieces::joined(
    CodedValues form, int threads, const std::function<Piece(std::int64_t block)>& piece_of) const {
  std::vector<Piece> pieces(static_cast<std::size_t>(shape_.blocks()));
  parallel_tasks(threads, shape_.blocks(), [&](std::int64_t block) {
    pieces[static_cast<std::size_t>(block)] = piece_of(block);
  });
  Chosen chosen{.form = std::move(form)};
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
