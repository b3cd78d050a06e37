#include "base/sha256_blocks.h"

#include <bit>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gbcompress {
namespace {

using std::rotr;
using std::uint32_t;

// FIPS 180-4, section 4.2.2.
alignas(16) constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 | std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 | std::to_integer<uint32_t>(bytes[3]);
}

/// Round `t` of a part of 16. The eight working variables stay where they are and change their
/// roles: what FIPS 180-4 calls a is s[-t mod 8].
template <std::size_t t>
inline void sha256_round(Sha256State& s, uint32_t word, uint32_t constant) {
  constexpr auto at = [](std::size_t role) { return (role + 16 - t) % 8; };
  const uint32_t a = s[at(0)], b = s[at(1)], c = s[at(2)];
  const uint32_t e = s[at(4)], f = s[at(5)], g = s[at(6)];
  const uint32_t first =
      s[at(7)] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + constant + word;
  s[at(3)] += first;
  s[at(7)] = first + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
}

template <std::size_t... t>
inline void sha256_rounds(Sha256State& s, const uint32_t* words, const uint32_t* constants,
                          std::index_sequence<t...>) {
  (sha256_round<t>(s, words[t], constants[t]), ...);
}

/// The words of the next 16 rounds.
inline void sha256_extend(std::array<uint32_t, 16>& w) {
  for (std::size_t t = 0; t < 16; ++t) {
    const uint32_t before2 = w[(t + 14) % 16], before15 = w[(t + 1) % 16];
    w[t] += (rotr(before15, 7) ^ rotr(before15, 18) ^ before15 >> 3) + w[(t + 9) % 16] +
            (rotr(before2, 17) ^ rotr(before2, 19) ^ before2 >> 10);
  }
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSsse3 = 1u << 9, kSse41 = 1u << 19, kSha = 1u << 29;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kSsse3) == 0 || (c & kSse41) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kSha) != 0;
}

/// Its instructions take the eight variables as two registers, ABEF and CDGH, and four rounds at
/// once.
[[gnu::target("sha,ssse3,sse4.1")]] void sha256_blocks_x86(Sha256State& state,
                                                           const std::byte* blocks,
                                                           std::size_t count) {
  const auto load = [](const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load(&state[0]), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, blocks += kSha256Block) {
    const __m128i first_abef = abef, first_cdgh = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(blocks + 16 * i), big_endian);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      const __m128i before8 = w[(i + 2) % 4], before4 = w[(i + 3) % 4];
      if (i >= 4) {
        now = _mm_sha256msg1_epu32(now, w[(i + 1) % 4]);
        now = _mm_add_epi32(now, _mm_alignr_epi8(before4, before8, 4));
        now = _mm_sha256msg2_epu32(now, before4);
      }
      const __m128i added = _mm_add_epi32(now, load(&kRoundConstants[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
    }
    abef = _mm_add_epi32(abef, first_abef);
    cdgh = _mm_add_epi32(cdgh, first_cdgh);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

}  // namespace

void sha256_blocks_portable(Sha256State& state, const std::byte* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kSha256Block) {
    std::array<uint32_t, 16> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = big_endian(blocks + 4 * i);
    Sha256State working = state;
    for (std::size_t part = 0; part < 64; part += 16) {
      if (part > 0) sha256_extend(words);
      sha256_rounds(working, words.data(), kRoundConstants + part, std::make_index_sequence<16>());
    }
    for (std::size_t i = 0; i < state.size(); ++i) state[i] += working[i];
  }
}

Sha256Blocks sha256_blocks_native() {
#if defined(__x86_64__)
  static const bool known = has_sha_instructions();
  if (known) return &sha256_blocks_x86;
#endif
  return nullptr;
}

}  // namespace gbcompress
