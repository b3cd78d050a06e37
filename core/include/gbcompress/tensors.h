#pragma once
/// Tensors of files: element types, and how a model is found in a file that holds more.
/// LibTorch-free.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// Element types under the names the safetensors format gives them.

enum class DType : std::uint8_t {
  kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64,
  kF16, kBF16, kF32, kF64, kC64,
  kF8E5M2, kF8E4M3, kF8E5M2FNUZ, kF8E4M3FNUZ, kF8E8M0, kF6E2M3, kF6E3M2, kF4,
};

/// "F32", "BF16", "F8_E4M3", ...
std::string_view dtype_name(DType dtype) noexcept;
std::optional<DType> parse_dtype(std::string_view name) noexcept;
/// Bits of one element: 4, 6, 8, 16, 32 or 64.
int dtype_bits(DType dtype) noexcept;
/// True for F16, BF16, F32 and F64: the types a g-net can stand in for.
bool is_real(DType dtype) noexcept;

// How a model is found in a file that holds more than one.

struct OpenOptions {
  /// Every tensor and number of a checkpoint under its full dotted name, also optimizers' and
  /// schedulers'.
  bool keep_all = false;
  /// The part of a checkpoint that is the model, by its dotted name ("generator",
  /// "ema.state_dict");
  /// "" to find it.
  std::string part = {};
};

}  // namespace gbcompress
