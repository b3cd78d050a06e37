#include "format/onnx/types.h"

#include <array>

#include "base/checked.h"

namespace gbcompress::onnx {
namespace {

struct Type {
  const char* name;
  int bits;
  std::optional<DType> dtype;
};

/// By TensorProto.DataType.
constexpr std::array<Type, 27> kTypes = {{
    {"UNDEFINED", 0, {}},
    {"FLOAT", 32, DType::kF32},
    {"UINT8", 8, DType::kU8},
    {"INT8", 8, DType::kI8},
    {"UINT16", 16, DType::kU16},
    {"INT16", 16, DType::kI16},
    {"INT32", 32, DType::kI32},
    {"INT64", 64, DType::kI64},
    {"STRING", 0, {}},
    {"BOOL", 8, DType::kBool},
    {"FLOAT16", 16, DType::kF16},
    {"DOUBLE", 64, DType::kF64},
    {"UINT32", 32, DType::kU32},
    {"UINT64", 64, DType::kU64},
    {"COMPLEX64", 64, DType::kC64},
    {"COMPLEX128", 128, {}},
    {"BFLOAT16", 16, DType::kBF16},
    {"FLOAT8E4M3FN", 8, DType::kF8E4M3},
    {"FLOAT8E4M3FNUZ", 8, DType::kF8E4M3FNUZ},
    {"FLOAT8E5M2", 8, DType::kF8E5M2},
    {"FLOAT8E5M2FNUZ", 8, DType::kF8E5M2FNUZ},
    {"UINT4", 4, {}},
    {"INT4", 4, {}},
    {"FLOAT4E2M1", 4, {}},
    {"FLOAT8E8M0", 8, DType::kF8E8M0},
    {"UINT2", 2, {}},
    {"INT2", 2, {}},
}};

bool is_known(int type) { return type >= 0 && type < static_cast<int>(kTypes.size()); }

}  // namespace

int type_bits(int type) noexcept {
  return is_known(type) ? kTypes[static_cast<std::size_t>(type)].bits : 0;
}

std::string type_name(int type) {
  return is_known(type) ? kTypes[static_cast<std::size_t>(type)].name
                        : "type " + std::to_string(type);
}

Shown shown_as(const Tensor& tensor) {
  const Type& type = kTypes[static_cast<std::size_t>(tensor.type)];
  if (type.dtype) return {*type.dtype, tensor.shape};
  const std::int64_t bits =
      checked_mul(checked_elements(tensor.shape, "a tensor"), type.bits, "a tensor");
  return {DType::kU8, {checked_add(bits, 7, "a tensor") / 8}};
}

}  // namespace gbcompress::onnx
