#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "artifact/integers/decoded_products.cpp"
// Sums lie in arrays of vectors, which vectors of unknown length cannot.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/integers/decoded_products.h"
#include "base/parallel.h"
#include "codec/lanes/decode_block.h"
#include "gbcompress/error.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Sum = hn::CappedTag<float, 16>;

HWY_INLINE hn::Vec<Sum> Numbers(const float* values) { return hn::LoadU(Sum(), values); }
HWY_INLINE hn::Vec<Sum> Numbers(const codec::lanes::Bfloat16* values) {
  const hn::Rebind<std::uint16_t, Sum> narrow;
  const hn::Rebind<std::uint32_t, Sum> wide;
  const auto bits = hn::PromoteTo(wide, hn::LoadU(narrow, &values->bits));
  return hn::BitCast(Sum(), hn::ShiftLeft<16>(bits));
}
HWY_INLINE float Number(const float* value) { return *value; }
HWY_INLINE float Number(const codec::lanes::Bfloat16* value) {
  const std::uint32_t bits = std::uint32_t{value->bits} << 16;
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

template <std::size_t kTokens, typename Value>
void DotRow(const Value* row, std::size_t cols, const float* x, float* to, std::size_t stride) {
  const Sum d;
  const std::size_t lanes = hn::Lanes(d);
  // Two sums of each token, so that additions need not wait for each other.
  constexpr std::size_t kSums = 2;
  hn::Vec<Sum> sums[kTokens][kSums];
  for (auto& token : sums)
    for (auto& sum : token) sum = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kSums * lanes <= cols; c += kSums * lanes)
    for (std::size_t s = 0; s < kSums; ++s) {
      const auto numbers = Numbers(row + c + s * lanes);
      for (std::size_t t = 0; t < kTokens; ++t)
        sums[t][s] = hn::MulAdd(numbers, hn::LoadU(d, x + t * cols + c + s * lanes), sums[t][s]);
    }
  for (std::size_t t = 0; t < kTokens; ++t) {
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sums[t][0], sums[t][1])));
    for (std::size_t rest = c; rest < cols; ++rest) sum += Number(row + rest) * x[t * cols + rest];
    to[t * stride] = sum;
  }
}

template <typename Value>
void DotRows(const Value* rows, std::size_t count, std::size_t cols, const float* x,
             std::size_t tokens, float* to, std::size_t stride) {
  for (std::size_t r = 0; r < count; ++r, rows += cols, ++to) {
    std::size_t t = 0;
    for (; t + 4 <= tokens; t += 4) DotRow<4>(rows, cols, x + t * cols, to + t * stride, stride);
    for (; t < tokens; ++t) DotRow<1>(rows, cols, x + t * cols, to + t * stride, stride);
  }
}

void DotFloats(const float* rows, std::size_t count, std::size_t cols, const float* x,
               std::size_t tokens, float* to, std::size_t stride) {
  DotRows(rows, count, cols, x, tokens, to, stride);
}
void DotBfloats(const codec::lanes::Bfloat16* rows, std::size_t count, std::size_t cols,
                const float* x, std::size_t tokens, float* to, std::size_t stride) {
  DotRows(rows, count, cols, x, tokens, to, stride);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {
namespace {

HWY_EXPORT(DotFloats);
HWY_EXPORT(DotBfloats);

void dot_rows(const float* rows, std::size_t count, std::size_t cols, const float* x,
              std::size_t tokens, float* to, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(DotFloats)(rows, count, cols, x, tokens, to, stride);
}
void dot_rows(const codec::lanes::Bfloat16* rows, std::size_t count, std::size_t cols,
              const float* x, std::size_t tokens, float* to, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(DotBfloats)(rows, count, cols, x, tokens, to, stride);
}

std::int64_t cols_of(const ArtifactTensor& tensor) {
  return tensor_elements(tensor.shape) / std::max<std::int64_t>(1, tensor.shape[0]);
}

template <typename Value>
void multiply(const DirectValues& values, DType dtype, std::int64_t rows, std::int64_t cols,
              std::span<const float> x, std::int64_t tokens, std::span<float> to, int threads) {
  const auto& parts = values.parts();
  parallel_tasks(threads, static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
    const LanesPart& part = parts[static_cast<std::size_t>(i)];
    thread_local std::vector<Value> room;
    room.resize(static_cast<std::size_t>(part.size));
    values.read(static_cast<std::size_t>(i), dtype, std::as_writable_bytes(std::span(room)));
    dot_rows(room.data(), static_cast<std::size_t>(part.size / cols),
             static_cast<std::size_t>(cols), x.data(), static_cast<std::size_t>(tokens),
             to.data() + part.first / cols, static_cast<std::size_t>(rows));
  });
}

}  // namespace

bool multiplies_decoded(const ArtifactReader& artifact, std::size_t tensor, DType dtype) {
  const ArtifactTensor& form = artifact.tensors()[tensor];
  if ((dtype != DType::kF32 && dtype != DType::kBF16) || !is_real(form.dtype) ||
      form.shape.size() < 2 || tensor_elements(form.shape) == 0 ||
      !DirectValues::fits(artifact, tensor))
    return false;
  const std::int64_t cols = cols_of(form);
  const DirectValues values(artifact, tensor);
  return std::all_of(values.parts().begin(), values.parts().end(), [&](const LanesPart& part) {
    return part.first % cols == 0 && part.size % cols == 0;
  });
}

void multiply_decoded(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                      std::span<const float> x, std::int64_t tokens, std::span<float> to,
                      int threads) {
  const ArtifactTensor& form = artifact.tensors()[tensor];
  const std::int64_t rows = form.shape[0], cols = cols_of(form);
  if (static_cast<std::int64_t>(x.size()) != tokens * cols ||
      static_cast<std::int64_t>(to.size()) != tokens * rows)
    throw Error(Errc::kShapeMismatch,
                "a matrix of " + std::to_string(rows) + " rows and " + std::to_string(cols) +
                    " columns is not multiplied with " + std::to_string(x.size()) +
                    " numbers to make " + std::to_string(to.size()));
  const DirectValues values(artifact, tensor);
  const int count = threads > 0 ? threads : usable_processors();
  if (dtype == DType::kBF16)
    multiply<codec::lanes::Bfloat16>(values, dtype, rows, cols, x, tokens, to, count);
  else
    multiply<float>(values, dtype, rows, cols, x, tokens, to, count);
}

}  // namespace gbcompress
#endif
