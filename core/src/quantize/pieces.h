#pragma once
/// A large matrix on its way to integers in pieces of whole rows, the blocks of profile lanes: no
/// more of it is in memory than the pieces that threads work on.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "artifact/integers/packed_blocks.h"
#include "base/internal.h"
#include "quantize/allocation/bit_allocation.h"
#include "quantize/feedback/rounding_model.h"

namespace GBC_INTERNAL gbcompress {

class MatrixPieces {
 public:
  /// Whether a row's integers depend on the values of its piece alone, and whole rows are pieces.
  static bool fits(const TensorAllocation& tensor) noexcept;

  /// @param tensor  must outlive this
  explicit MatrixPieces(const TensorAllocation& tensor);

  struct Chosen {
    CodedValues form;                 ///< without integers
    std::vector<PackedBlock> blocks;  ///< of offsets of rows, if there are some, then of integers
    double relative_error = 0;        ///< squared error over squares
  };
  /// As StepMatrix::choose() for every piece by itself. The same for any number of threads.
  Chosen choose(int step, Quantizer quantizer, int threads) const;

  /// Error feedback along the columns of each piece.
  struct FeedbackSetup {
    const RoundingModel& model;  ///< of one group, without a factor of the rows
    bool dependent;              ///< integers
    Rounding rounding;           ///< row_steps are those of all rows, or empty
    double most;                 ///< of its squares that a row may lose
    bool zeros;                  ///< more than that, unless zeros have outputs nearer to its own
  };
  /// Whether pieces can be rounded under such a model by themselves.
  static bool independent(const RoundingModel& model) noexcept;
  /// As round_within() for every piece by itself, rows that lose too much with finer steps. The
  /// same for any number of threads.
  Chosen round(const FeedbackSetup& setup, int threads) const;
  /// The least index whose integers stay within kMaxMagnitude.
  int finest() const noexcept { return finest_; }

 private:
  struct Piece {
    PackedBlock block;
    std::vector<std::int32_t> row_steps;  ///< empty: none differs
    double error = 0;                     ///< sum of squares
  };
  /// Where a piece lies, and its values.
  struct Part {
    IntegerGrid grid;
    std::size_t first;  ///< row
    std::vector<float> values;
    std::vector<RowSize> sizes;  ///< of its rows
  };
  Part part_of(std::int64_t block) const;
  /// Gives back the pages of a piece that is done.
  void release(std::int64_t block) const;
  Piece choose_piece(std::int64_t block, int step, Quantizer quantizer) const;
  Piece round_piece(std::int64_t block, const FeedbackSetup& setup) const;
  /// All pieces side by side.
  Chosen joined(CodedValues form, int threads,
                const std::function<Piece(std::int64_t block)>& piece_of) const;

  const TensorAllocation& tensor_;
  codec::lanes::Shape shape_;
  int finest_ = kMinStep;
};

}  // namespace gbcompress
