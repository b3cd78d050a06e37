#pragma once
/// Classes of elements by their exponents, and where the elements of a class lie.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "codec/delta/elements.h"

namespace gbcompress::codec::delta {

inline constexpr std::size_t kMostClasses = 8;
inline constexpr std::size_t kBlock = 64;  ///< elements that are looked at together

/// The first level of each class but the lowest, which begins at level 1.
using Thresholds = std::vector<std::uint16_t>;

/// The classes that make gaps cheapest: runs of levels that are alike in how many elements changed.
/// @param all, changed  elements of each level; as many of both
Thresholds choose_classes(std::span<const std::uint64_t> all,
                          std::span<const std::uint64_t> changed);

/// The lowest bit of each byte, the first byte's lowest.
inline std::uint64_t bits_of(const std::array<std::uint8_t, kBlock>& flags) noexcept {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kBlock; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, flags.data() + i, sizeof eight);
    bits |= (eight * 0x0102040810204080u >> 56) << i;
  }
  return bits;
}

/// The classes of 64 neighboring elements, or of fewer at the end of a tensor.
template <typename U>
class Block {
 public:
  using S = std::make_signed_t<U>;

  Block(const Thresholds& thresholds, int mantissa_bits) : classes_(thresholds.size() + 1) {
    for (std::size_t k = 0; k < thresholds.size(); ++k)
      limits_[k] = static_cast<S>(std::uint64_t{thresholds[k]} << mantissa_bits);
  }

  std::size_t classes() const noexcept { return classes_; }

  void load(const std::byte* elements, std::size_t count) {
    count_ = count;
    if (classes_ == 1) return;
    std::array<U, kBlock> bits{};
    std::memcpy(bits.data(), elements, count * sizeof(U));
    for (std::size_t i = 0; i < kBlock; ++i)
      magnitudes_[i] = static_cast<S>(bits[i] & static_cast<U>(~kSign<U>));
  }

  /// Elements of each class.
  std::array<std::uint32_t, kMostClasses> counts() const {
    std::array<std::uint32_t, kMostClasses> counts{};
    std::uint32_t before = static_cast<std::uint32_t>(count_);
    for (std::size_t k = 0; k + 1 < classes_; ++k) {
      S reached = 0;
      for (const S magnitude : magnitudes_)
        reached = static_cast<S>(reached + (magnitude >= limits_[k]));
      counts[k] = before - static_cast<std::uint32_t>(reached);
      before = static_cast<std::uint32_t>(reached);
    }
    counts[classes_ - 1] = before;
    return counts;
  }

  /// For each class, a bit for each element, set for those of the class.
  std::array<std::uint64_t, kMostClasses> masks() const {
    std::array<std::uint64_t, kMostClasses> masks{};
    std::uint64_t rest = count_ == kBlock ? ~std::uint64_t{0} : (std::uint64_t{1} << count_) - 1;
    for (std::size_t k = 0; k + 1 < classes_; ++k) {
      std::array<std::uint8_t, kBlock> flags;
      for (std::size_t i = 0; i < kBlock; ++i) flags[i] = magnitudes_[i] >= limits_[k];
      const std::uint64_t reached = bits_of(flags) & rest;
      masks[k] = rest & ~reached;
      rest = reached;
    }
    masks[classes_ - 1] = rest;
    return masks;
  }

 private:
  const std::size_t classes_;
  std::array<S, kMostClasses> limits_{};
  alignas(64) std::array<S, kBlock> magnitudes_{};
  std::size_t count_ = 0;
};

}  // namespace gbcompress::codec::delta
