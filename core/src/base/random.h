#pragma once
/// Counter-based random streams: a number depends on its key and its index alone, never on what was
/// drawn before, by which thread, or where. Philox-4x32-10 (Salmon et al., SC 2011).

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) noexcept;

/// The stream (seed, purpose, layer, step). [thread-safe]
class RandomStream {
 public:
  /// @param purpose  what the numbers are for: "init", "shuffle"; part of the key
  /// @param layer    name of the parameter they are for, or ""
  RandomStream(std::uint64_t seed, std::string_view purpose, std::string_view layer = "",
               std::uint64_t step = 0);

  /// Uniform in [0, 2^32).
  std::uint32_t bits(std::uint64_t index) const noexcept;
  /// out[i] = bits(first + i)
  void fill_bits(std::span<std::uint32_t> out, std::uint64_t first = 0) const noexcept;
  /// Standard normal (Box-Muller).
  float normal(std::uint64_t index) const noexcept;
  /// out[i] = mean + deviation * normal(first + i)
  void fill_normal(std::span<float> out, float mean, float deviation,
                   std::uint64_t first = 0) const noexcept;
  /// A uniformly random order of 0 .. n-1.
  std::vector<std::int64_t> permutation(std::int64_t n) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t index) const noexcept;

  std::array<std::uint32_t, 2> key_;
  std::uint64_t step_;
};

}  // namespace gbcompress
