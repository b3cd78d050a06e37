#pragma once
/// A large matrix on its way to integers in pieces of whole rows, the blocks of profile lanes: no
/// more of it is in memory than the pieces that threads work on.

#include <cstdint>
#include <span>
#include <vector>

#include "artifact/integers/packed_blocks.h"
#include "base/internal.h"
#include "quantize/allocation/plan.h"

namespace GBC_INTERNAL gbcompress {

class MatrixPieces {
 public:
  /// Whether a row's integers depend on the values of its piece alone, and whole rows are pieces.
  static bool fits(const TensorPlan& tensor) noexcept;

  /// @param tensor  must outlive this
  explicit MatrixPieces(const TensorPlan& tensor);

  struct Chosen {
    CodedValues form;                 ///< without integers
    std::vector<PackedBlock> blocks;  ///< of offsets of rows, if there are some, then of integers
    double relative_error = 0;        ///< squared error over squares
  };
  /// As StepMatrix::choose() for every piece by itself. The same for any number of threads.
  Chosen choose(int step, Quantizer quantizer, int threads) const;
  /// The least index whose integers stay within kMaxMagnitude.
  int finest() const noexcept { return finest_; }

 private:
  struct Piece {
    PackedBlock block;
    std::vector<std::int32_t> row_steps;  ///< empty: none differs
    double error = 0;                     ///< sum of squares
  };
  Piece choose_piece(std::int64_t block, int step, Quantizer quantizer) const;

  const TensorPlan& tensor_;
  codec::lanes::Shape shape_;
  int finest_ = kMinStep;
};

}  // namespace gbcompress
