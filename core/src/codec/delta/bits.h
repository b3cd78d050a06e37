#pragma once
/// Runs of bits, the lowest of a byte first, and numbers whose mean drifts
/// (docs/reference/exact-deltas.md, "Bits" and "Numbers").

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress::codec::delta {

class BitWriter {
 public:
  /// The lowest `count` bits, up to 56; those above are 0.
  void put(std::uint64_t bits, int count) {
    Run run(*this, static_cast<std::size_t>(count));
    run.put(bits, count);
    run.end(*this);
  }
  std::vector<std::byte> finish() {
    bytes_.resize(at_ + (filled_ > 0 ? 1 : 0));
    return std::move(bytes_);
  }

  /// A copy that writes on without a check of the space, and stays in registers; end() to go on
  /// with the writer itself.
  class Run {
   public:
    /// @param bits  that are put at most
    Run(BitWriter& out, std::size_t bits)
        : to_(out.room(bits / 8 + 2 * sizeof(std::uint64_t))),
          waiting_(out.waiting_),
          filled_(out.filled_) {}
    void put(std::uint64_t bits, int count) {
      waiting_ |= bits << filled_;
      filled_ += count;
      std::memcpy(to_, &waiting_, sizeof waiting_);
      to_ += filled_ / 8;
      waiting_ >>= filled_ & ~7;  // at most 56: of what is waiting, 7 bits stay at most
      filled_ &= 7;
    }
    void end(BitWriter& out) const {
      out.at_ = static_cast<std::size_t>(to_ - out.bytes_.data());
      out.waiting_ = waiting_;
      out.filled_ = filled_;
    }

   private:
    std::byte* to_;
    std::uint64_t waiting_;
    int filled_;
  };

 private:
  std::byte* room(std::size_t bytes) {
    if (bytes_.size() - at_ < bytes) bytes_.resize(2 * bytes_.size() + bytes);
    return bytes_.data() + at_;
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(64);
  std::size_t at_ = 0;
  std::uint64_t waiting_ = 0;
  int filled_ = 0;  ///< bits, below 8
};

/// What lies beyond the end is 0; check() tells.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// At least 56 bits.
  std::uint64_t peek() const {
    const std::size_t at = position_ / 8;
    std::uint64_t bits = 0;
    if (at + sizeof bits <= bytes_.size()) [[likely]]
      std::memcpy(&bits, bytes_.data() + at, sizeof bits);
    else if (at < bytes_.size())
      std::memcpy(&bits, bytes_.data() + at, bytes_.size() - at);
    return bits >> position_ % 8;
  }
  void skip(int count) { position_ += static_cast<std::size_t>(count); }
  /// Up to 56.
  std::uint64_t take(int count) {
    const std::uint64_t bits = peek() & ((std::uint64_t{1} << count) - 1);
    skip(count);
    return bits;
  }
  /// A copy that reads on without a look at the end, and stays in registers; end() to go on with
  /// the reader.
  class Run {
   public:
    explicit Run(const BitReader& in) : from_(in.bytes_.data()), position_(in.position_) {}
    std::uint64_t take(int count) {
      std::uint64_t bits;
      std::memcpy(&bits, from_ + position_ / 8, sizeof bits);
      bits = bits >> position_ % 8 & ((std::uint64_t{1} << count) - 1);
      position_ += static_cast<std::size_t>(count);
      return bits;
    }
    void end(BitReader& in) const { in.position_ = position_; }

   private:
    const std::byte* from_;
    std::size_t position_;
  };
  /// Whether a Run may take so many bits.
  bool has(std::size_t bits) const {
    return position_ / 8 + bits / 8 + 2 * sizeof(std::uint64_t) <= bytes_.size();
  }

  /// @throws Error(kTruncated): more was read than there is
  void check() const {
    if (position_ > 8 * bytes_.size())
      throw Error(Errc::kTruncated, "the bits of a change end early; get the file again");
  }
  /// Goes on with the next whole byte. @return its place
  /// @throws Error(kTruncated); Error(kCorrupt) for bits before it that are not 0
  std::size_t end_byte() {
    check();
    const int rest = static_cast<int>(-position_ % 8);
    if (take(rest) != 0)
      throw Error(Errc::kCorrupt, "the bits of a change do not end; get the file again");
    return position_ / 8;
  }
  /// @throws as end_byte(); Error(kCorrupt) for bytes after the last bits
  void check_end() {
    if (end_byte() != bytes_.size())
      throw Error(Errc::kCorrupt, "bytes follow the bits of a change; get the file again");
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;  ///< bits
};

/// Up to 64 bits. @tparam Writer  BitWriter or its Run
template <typename Writer>
void put_long(Writer& out, std::uint64_t bits, int count) {
  const int first = std::min(count, 32);
  out.put(bits & ((std::uint64_t{1} << first) - 1), first);
  if (count > first) out.put(bits >> first, count - first);
}
/// Up to 64 bits. @tparam Reader  BitReader or its Run
template <typename Reader>
std::uint64_t take_long(Reader& in, int count) {
  const int first = std::min(count, 32);
  const std::uint64_t low = in.take(first);
  return count > first ? in.take(count - first) << first | low : low;
}

/// Numbers from 0 on that follow a geometric distribution whose mean drifts.
class Drifting {
 public:
  /// @param octave  the mean of the first ones is about 2^octave / 64
  explicit Drifting(int octave) : mean_(std::uint64_t{1} << octave) {}

  /// The octave for numbers of that mean.
  static int octave_of(double mean) {
    const double bounded = std::min(mean * 90, 0x1p62);  // what an integer holds
    return std::clamp(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bounded))) - 1, 0,
                      kMostOctave);
  }
  void put(BitWriter& out, std::uint64_t number) {
    const int low = low_bits();
    if (number >> low < kEscape) {
      out.put(std::uint64_t{1} << (number >> low), static_cast<int>(number >> low) + 1);
      out.put(number & ((std::uint64_t{1} << low) - 1), low);
    } else {
      const auto length = static_cast<int>(std::bit_width(number));
      out.put(static_cast<std::uint64_t>(length) << kEscape, kEscape + kLengthBits);
      put_long(out, number, length);
    }
    learn(number);
  }
  std::uint64_t get(BitReader& in) {
    const int low = low_bits();
    const std::uint64_t bits = in.peek();
    const auto zeros = std::countr_zero(bits | std::uint64_t{1} << kEscape);
    std::uint64_t number;
    if (zeros < kEscape) [[likely]] {
      number = static_cast<std::uint64_t>(zeros) << low |
               (bits >> (zeros + 1) & ((std::uint64_t{1} << low) - 1));
      in.skip(zeros + 1 + low);
    } else {
      in.skip(kEscape);
      number = take_long(in, std::min(static_cast<int>(in.take(kLengthBits)), 64));
    }
    learn(number);
    return number;
  }

  static constexpr int kMostOctave = 36, kOctaveBits = 6, kLengthBits = 7;

 private:
  static constexpr int kEscape = 24, kMostLowBits = 30, kRate = 4, kFraction = 6;
  static constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 30;

  /// A further one is worth it where the mean and a half exceed 2.08 to the power of them.
  int low_bits() const {
    return std::min(static_cast<int>(std::bit_width((mean_ + 32) * 123 >> 14)), kMostLowBits);
  }
  void learn(std::uint64_t number) {
    const auto seen = static_cast<std::int64_t>(std::min(number, kMostNumber) << kFraction);
    mean_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(mean_) +
                                       ((seen - static_cast<std::int64_t>(mean_)) >> kRate));
  }

  std::uint64_t mean_;  ///< with kFraction bits behind the point
};

/// A number of any size.
inline void put_count(BitWriter& out, std::uint64_t count) {
  const auto length = static_cast<int>(std::bit_width(count));
  out.put(static_cast<std::uint64_t>(length), Drifting::kLengthBits);
  put_long(out, count, length);
}

inline std::uint64_t get_count(BitReader& in) {
  return take_long(in, std::min(static_cast<int>(in.take(Drifting::kLengthBits)), 64));
}

}  // namespace gbcompress::codec::delta
