// Loops over elements are made vectors by the compiler, of the width of each level. Further levels
// would only add to the size of every program.
#ifdef GBC_FREESTANDING
#define HWY_DISABLED_TARGETS                                                                     \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/delta/dense.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include "codec/delta/dense-inl.h"
// clang-format on

#if HWY_ONCE
namespace gbcompress::codec::delta {

namespace {
HWY_EXPORT(EncodeDense8);
HWY_EXPORT(EncodeDense16);
HWY_EXPORT(EncodeDense32);
HWY_EXPORT(EncodeDense64);
HWY_EXPORT(ApplyDense8);
HWY_EXPORT(ApplyDense16);
HWY_EXPORT(ApplyDense32);
HWY_EXPORT(ApplyDense64);
}  // namespace

#define GBC_DENSE(U, bits)                                                                    \
  template <>                                                                                 \
  std::vector<std::byte> encode_dense<U>(int mantissa_bits, ChangeGrid grid,                  \
                                         std::span<const std::byte> base,                     \
                                         std::span<const std::byte> now) {                    \
    return HWY_DYNAMIC_DISPATCH(EncodeDense##bits)(mantissa_bits, grid, base, now);           \
  }                                                                                           \
  template <>                                                                                 \
  void apply_dense<U>(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section, \
                      std::span<std::byte> elements) {                                        \
    HWY_DYNAMIC_DISPATCH(ApplyDense##bits)(mantissa_bits, grid, section, elements);           \
  }
GBC_DENSE(std::uint8_t, 8)
GBC_DENSE(std::uint16_t, 16)
GBC_DENSE(std::uint32_t, 32)
GBC_DENSE(std::uint64_t, 64)
#undef GBC_DENSE

}  // namespace gbcompress::codec::delta
#endif  // HWY_ONCE
