#include "format/pickle_globals.h"

#include <algorithm>
#include <iterator>

namespace gbcompress {
namespace {

using enum PickleCallable;

constexpr PickleGlobal kGlobals[] = {
    {"collections.OrderedDict", kOrderedDict, {}},
    {"torch._utils._rebuild_tensor_v2", kTensorV2, {}},
    {"torch._utils._rebuild_tensor_v3", kTensorV3, {}},
    {"torch._utils._rebuild_parameter", kParameter, {}},
    {"torch.BoolStorage", kStorageClass, DType::kBool},
    {"torch.ByteStorage", kStorageClass, DType::kU8},
    {"torch.CharStorage", kStorageClass, DType::kI8},
    {"torch.ShortStorage", kStorageClass, DType::kI16},
    {"torch.IntStorage", kStorageClass, DType::kI32},
    {"torch.LongStorage", kStorageClass, DType::kI64},
    {"torch.HalfStorage", kStorageClass, DType::kF16},
    {"torch.BFloat16Storage", kStorageClass, DType::kBF16},
    {"torch.FloatStorage", kStorageClass, DType::kF32},
    {"torch.DoubleStorage", kStorageClass, DType::kF64},
    {"torch.ComplexFloatStorage", kStorageClass, DType::kC64},
    {"torch.storage.UntypedStorage", kStorageClass, {}},
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
};

}  // namespace

const PickleGlobal* find_pickle_global(std::string_view name) noexcept {
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                   [&](const PickleGlobal& global) { return global.name == name; });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace gbcompress
