#pragma once
/// The element types of ONNX, and elements that are stored as varints.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal.h"
#include "format/onnx/model.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

inline constexpr int kFloat = 1, kString = 8;

/// Whether a name, of an operator say, is in a list.
template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Bits of one element; 0 for strings and types that this build does not know.
int type_bits(int type) noexcept;
/// "FLOAT", "type 99"
std::string type_name(int type);

/// How a tensor is shown outside of ONNX: its type and shape; types that DType lacks (two or four
/// bits, complex128) are U8 of as many bytes as they take.
struct Shown {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
};
/// @param tensor  of a type that type_bits() knows
Shown shown_as(const Tensor& tensor);

}  // namespace onnx
}  // namespace gbcompress
