#include "format/torch/pickle_globals.h"

#include <algorithm>
#include <span>

namespace gbcompress {
namespace {

using enum PickleCallable;

constexpr PickleGlobal kGlobals[] = {
    {"collections.OrderedDict", kDict, {}},
    {"collections.defaultdict", kDict, {}},
    {"builtins.set", kSet, {}},
    {"builtins.frozenset", kSet, {}},
    {"__builtin__.set", kSet, {}},
    {"__builtin__.frozenset", kSet, {}},
    {"torch.Size", kTuple, {}},
    {"torch._utils._rebuild_tensor", kTensorV1, {}},
    {"torch._utils._rebuild_tensor_v2", kTensorV2, {}},
    {"torch._utils._rebuild_tensor_v3", kTensorV3, {}},
    {"torch._tensor._rebuild_from_type", kTensorFromType, {}},
    {"torch._tensor._rebuild_from_type_v2", kTensorFromType, {}},
    {"torch._utils._rebuild_parameter", kParameter, {}},
    {"torch._utils._rebuild_parameter_with_state", kParameter, {}},
    {"torch.bool", kDtype, DType::kBool},
    {"torch.uint8", kDtype, DType::kU8},
    {"torch.int8", kDtype, DType::kI8},
    {"torch.uint16", kDtype, DType::kU16},
    {"torch.int16", kDtype, DType::kI16},
    {"torch.uint32", kDtype, DType::kU32},
    {"torch.int32", kDtype, DType::kI32},
    {"torch.uint64", kDtype, DType::kU64},
    {"torch.int64", kDtype, DType::kI64},
    {"torch.float16", kDtype, DType::kF16},
    {"torch.bfloat16", kDtype, DType::kBF16},
    {"torch.float32", kDtype, DType::kF32},
    {"torch.float64", kDtype, DType::kF64},
    {"torch.complex64", kDtype, DType::kC64},
    {"torch.float8_e5m2", kDtype, DType::kF8E5M2},
    {"torch.float8_e4m3fn", kDtype, DType::kF8E4M3},
    {"torch.float8_e5m2fnuz", kDtype, DType::kF8E5M2FNUZ},
    {"torch.float8_e4m3fnuz", kDtype, DType::kF8E4M3FNUZ},
    {"torch.float8_e8m0fnu", kDtype, DType::kF8E8M0},
    {"torch.float4_e2m1fn_x2", kDtype, DType::kF4},
};

// Behind "torch.", "torch.cuda." or "torch.storage.". Those without a DType have no tensors here,
// but the old format cannot be read past one of unknown size.
constexpr PickleGlobal kStorages[] = {
    {"BoolStorage", kStorageClass, DType::kBool, 1},
    {"ByteStorage", kStorageClass, DType::kU8, 1},
    {"CharStorage", kStorageClass, DType::kI8, 1},
    {"ShortStorage", kStorageClass, DType::kI16, 2},
    {"IntStorage", kStorageClass, DType::kI32, 4},
    {"LongStorage", kStorageClass, DType::kI64, 8},
    {"HalfStorage", kStorageClass, DType::kF16, 2},
    {"BFloat16Storage", kStorageClass, DType::kBF16, 2},
    {"FloatStorage", kStorageClass, DType::kF32, 4},
    {"DoubleStorage", kStorageClass, DType::kF64, 8},
    {"ComplexFloatStorage", kStorageClass, DType::kC64, 8},
    {"ComplexDoubleStorage", kStorageClass, {}, 16},
    {"QInt8Storage", kStorageClass, {}, 1},
    {"QUInt8Storage", kStorageClass, {}, 1},
    {"QInt32Storage", kStorageClass, {}, 4},
    {"QUInt4x2Storage", kStorageClass, {}, 1},
    {"QUInt2x4Storage", kStorageClass, {}, 1},
    {"UntypedStorage", kStorageClass, {}, 1},
    {"_UntypedStorage", kStorageClass, {}, 1},
};

const PickleGlobal* find(std::span<const PickleGlobal> all, std::string_view name) noexcept {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const PickleGlobal& global) { return global.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

const PickleGlobal* find_pickle_global(std::string_view name) noexcept {
  if (const PickleGlobal* known = find(kGlobals, name)) return known;
  for (const std::string_view module : {"torch.", "torch.cuda.", "torch.storage."})
    if (name.starts_with(module))
      if (const PickleGlobal* known = find(kStorages, name.substr(module.size()))) return known;
  return nullptr;
}

}  // namespace gbcompress
