#pragma once
/// What a codec has to beat: plain rounding and low rank, as real bytes.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// A compressed copy of a model's tensors. Names and shapes are not counted, in the control's
/// favor.
struct Control {
  std::vector<std::byte> bytes;    ///< one zstd frame (level 19)
  std::vector<at::Tensor> values;  ///< what decoding `bytes` gives, one for each tensor
};

/// Every trainable tensor of two and more dimensions as -q ... q times one float32 scale,
/// q = 2^(bits - 1) - 1, one byte a number before zstd; everything else exact.
/// @param bits  2 to 8
Control rounded_control(const std::vector<NamedParameter>& tensors, int bits);

/// Truncated singular value decompositions of the same tensors as matrices [first dimension, all
/// others], factors in binary16; a tensor whose factors would not be smaller is stored in binary16
/// itself, everything else exact.
class FactorControl {
 public:
  /// Decomposes once. `tensors` must outlive the object, and keep their values.
  explicit FactorControl(const std::vector<NamedParameter>& tensors);
  /// @param part  of the full rank that is kept, above 0 and up to 1; at least rank 1
  Control control(double part) const;
  /// Bytes of control(part) before zstd.
  std::int64_t raw_bytes(double part) const;
  /// The largest part whose raw bytes are at most `bytes`, or the one of rank 1 everywhere.
  double part_for(std::int64_t bytes) const;

 private:
  struct Matrix {
    std::int64_t rows = 0, cols = 0;
    at::Tensor left, right;  ///< [rows, full], [full, cols]: each with the root of the value
  };
  std::int64_t rank(const Matrix& matrix, double part) const;
  const std::vector<NamedParameter>& tensors_;
  std::vector<Matrix> matrices_;  ///< one for each tensor; 0 x 0 for those that are not cut
};

}  // namespace gbcompress
