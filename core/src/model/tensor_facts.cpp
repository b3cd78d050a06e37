#include "model/tensor_facts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "base/deviation.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

bool has_standard_arithmetic(at::ScalarType type) {
  return !c10::isComplexType(type) && (!c10::isFloatingType(type) || c10::elementSize(type) > 1);
}

}  // namespace

double standard_deviation(const at::Tensor& tensor) {
  const std::int64_t n = tensor.numel();
  if (n < 2 || !has_standard_arithmetic(tensor.scalar_type())) return 0;
  // In pieces: a copy in double of a whole large tensor would double the memory needed.
  constexpr std::int64_t kPiece = 1 << 16;  // a multiple of kDeviationSums
  const at::Tensor flat = tensor.detach().to(at::kCPU).contiguous().view({-1});
  return deviation_of(n, [&](auto&& visit) {
    for (std::int64_t first = 0; first < n; first += kPiece) {
      const at::Tensor piece =
          flat.slice(0, first, std::min(n, first + kPiece)).to(at::kDouble).contiguous();
      visit({piece.const_data_ptr<double>(), static_cast<std::size_t>(piece.numel())});
    }
  });
}

void fill_facts(NamedParameter& entry) {
  entry.info.shape = entry.tensor.sizes().vec();
  entry.info.dtype = to_dtype(entry.tensor.scalar_type());
  entry.info.std = standard_deviation(entry.tensor);
}

void mark_ties(std::vector<NamedParameter>& entries) {
  std::map<std::pair<const void*, std::vector<std::int64_t>>, std::string> first;
  for (NamedParameter& entry : entries) {
    entry.tied_to.clear();
    if (entry.tensor.numel() == 0) continue;  // empty tensors share the null address
    const auto [known, added] = first.try_emplace(
        std::pair{entry.tensor.const_data_ptr(), entry.tensor.sizes().vec()}, entry.info.name);
    if (!added) entry.tied_to = known->second;
  }
}

void freeze_not_finite(std::vector<NamedParameter>& entries) {
  const at::NoGradGuard no_grad;
  for (NamedParameter& entry : entries)
    if (entry.trainable && is_real(entry.info.dtype) &&
        !at::isfinite(entry.tensor).all().item<bool>())
      entry.trainable = false;
}

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kU8;
    case at::kChar:
      return DType::kI8;
    case at::kUInt16:
      return DType::kU16;
    case at::kShort:
      return DType::kI16;
    case at::kUInt32:
      return DType::kU32;
    case at::kInt:
      return DType::kI32;
    case at::kUInt64:
      return DType::kU64;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    case at::kComplexFloat:
      return DType::kC64;
    case at::kFloat8_e5m2:
      return DType::kF8E5M2;
    case at::kFloat8_e4m3fn:
      return DType::kF8E4M3;
    case at::kFloat8_e5m2fnuz:
      return DType::kF8E5M2FNUZ;
    case at::kFloat8_e4m3fnuz:
      return DType::kF8E4M3FNUZ;
    case at::kFloat8_e8m0fnu:
      return DType::kF8E8M0;
    default:
      throw Error(Errc::kUnsupported, std::string("tensors of type ") + c10::toString(type) +
                                          " cannot be stored; convert them first");
  }
}

at::ScalarType to_scalar_type(DType dtype) {
  for (at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kUInt16, at::kShort, at::kUInt32, at::kInt,
        at::kUInt64, at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
        at::kComplexFloat, at::kFloat8_e5m2, at::kFloat8_e4m3fn, at::kFloat8_e5m2fnuz,
        at::kFloat8_e4m3fnuz, at::kFloat8_e8m0fnu})
    if (to_dtype(type) == dtype) return type;
  throw Error(Errc::kUnsupported, "element type " + std::string(dtype_name(dtype)) +
                                      " is unknown to LibTorch; convert the tensor first");
}

}  // namespace gbcompress
