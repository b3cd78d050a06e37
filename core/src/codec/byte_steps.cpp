#include "codec/byte_steps.h"

// States lie in arrays of vectors, which vectors of unknown length cannot.
#define HWY_DISABLED_TARGETS \
  (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/byte_steps.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include "codec/byte_steps-inl.h"
// clang-format on

#if HWY_ONCE
namespace gbcompress::codec {
namespace {
HWY_EXPORT(DecodeByteSteps);
HWY_EXPORT(EncodeByteSteps);
}  // namespace

std::size_t decode_byte_steps(const ByteSteps& in, std::size_t steps, std::uint32_t* states,
                              const std::byte*& word, const std::byte* end, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(DecodeByteSteps)(in, steps, states, word, end, out);
}
std::uint16_t* encode_byte_steps(const ByteSteps& in, const std::byte* bytes, std::size_t steps,
                                 std::uint32_t* states, std::uint16_t* next) {
  return HWY_DYNAMIC_DISPATCH(EncodeByteSteps)(in, bytes, steps, states, next);
}

}  // namespace gbcompress::codec
#endif  // HWY_ONCE
