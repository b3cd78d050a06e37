#pragma once
/// Floats as bins of equal width, and where in its bin each lies
/// (docs/reference/exact-deltas.md, "Bins"). What a model's quantized values leave open is spread
/// evenly over values, not over floats, which lie the closer the smaller they are.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "codec/delta/bits.h"
#include "codec/delta/elements.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {

/// Levels that an element may be above that of its bins, bits of 0 before a fall's own number, and
/// bits of that.
inline constexpr int kMostAbove = 8, kMostFall = 16, kFallBits = 12;

/// Of floats without their sign. The level of bins is that at which neighboring floats are as far
/// apart as a bin is wide.
template <typename U>
class Bins {
 public:
  /// @param bits  of an element
  explicit Bins(int mantissa_bits, int bits = kBits<U>)
      : mantissa_bits_(mantissa_bits), bits_(bits) {}

  int level(U magnitude) const {
    return std::max(1, static_cast<int>(magnitude >> mantissa_bits_));
  }
  /// @param unit  the level of the bins, from 1 and from level(magnitude) - kMostAbove on
  std::int64_t index(U magnitude, int unit) const {
    const int low = unit - level(magnitude);
    if (low > mantissa_bits_) return 0;
    const std::int64_t digits = significand(magnitude);
    return low < 0 ? digits << -low : digits >> low;
  }
  /// The bits that tell a float of the bin from the others.
  template <typename Writer>
  void put(Writer& raw, U magnitude, int unit) const {
    const int low = unit - level(magnitude), lowest = unit - mantissa_bits_ - 1;
    if (low <= mantissa_bits_) return low > 0 ? put_low(raw, magnitude, low) : void();
    const int fall = lowest - static_cast<int>(magnitude >> mantissa_bits_);
    if (fall < kMostFall) {
      raw.put(std::uint64_t{1} << fall, fall + 1);
    } else {
      raw.put(0, kMostFall);
      raw.put(static_cast<std::uint64_t>(fall), kFallBits);
    }
    put_low(raw, magnitude, mantissa_bits_);
  }
  /// The float of a bin. @throws Error(kCorrupt)
  template <typename Reader>
  U take(Reader& raw, std::int64_t index, int unit) const {
    if (index == 0 && unit > mantissa_bits_ + 1) return take_fallen(raw, unit - mantissa_bits_ - 1);
    const int top = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(index))) - 1;
    const int low = std::min(mantissa_bits_ - top, unit - 1);
    const int above = std::max(0, -low), level = unit - low;
    if (above > kMostAbove || level > highest() || (index & ((std::int64_t{1} << above) - 1)) != 0)
      refuse();
    std::uint64_t digits = static_cast<std::uint64_t>(index) >> above;
    if (low > 0) digits = digits << low | raw.take(low);
    return static_cast<U>((static_cast<std::uint64_t>(level - 1) << mantissa_bits_) + digits);
  }

 private:
  int highest() const { return (1 << (bits_ - 1 - mantissa_bits_)) - 1; }
  std::int64_t significand(U magnitude) const {
    const std::uint64_t one = std::uint64_t{1} << mantissa_bits_;
    return static_cast<std::int64_t>((magnitude & (one - 1)) | (magnitude >= one ? one : 0));
  }
  template <typename Writer>
  static void put_low(Writer& raw, U magnitude, int count) {
    raw.put(magnitude & ((std::uint64_t{1} << count) - 1), count);
  }
  /// Of the bin of 0: the field of the exponent is `lowest`, or less by a fall.
  template <typename Reader>
  U take_fallen(Reader& raw, int lowest) const {
    int fall = 0;
    while (fall < kMostFall && raw.take(1) == 0) ++fall;
    if (fall == kMostFall) fall = static_cast<int>(raw.take(kFallBits));
    if (fall > lowest || lowest - fall > highest()) refuse();
    return static_cast<U>(static_cast<std::uint64_t>(lowest - fall) << mantissa_bits_ |
                          raw.take(mantissa_bits_));
  }
  [[noreturn]] static void refuse() {
    throw Error(Errc::kCorrupt,
                "a dense change has an element beyond its type; get the file again");
  }

  const int mantissa_bits_, bits_;
};

}  // namespace gbcompress::codec::delta
