#pragma once
/// Range asymmetric numeral systems: four interleaved states of 32 bits, 12-bit probabilities.
/// A writer collects parts of the unit interval and codes them backwards, chunk by chunk.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress::codec {

inline constexpr int kProbabilityBits = 12;
inline constexpr std::uint32_t kWhole = 1u << kProbabilityBits;
inline constexpr std::uint32_t kLeastState = 1u << 16;
inline constexpr int kLanes = 4;
inline constexpr std::size_t kChunk = std::size_t{1} << 18;  ///< parts; a chunk ends with a segment

/// Bits that a part of this width stands for. For reports and choices only, never for a decoder.
double width_bits(std::uint32_t width);

class RansWriter {
 public:
  /// @param width  1 ... 4095
  void put(std::uint32_t start, std::uint32_t width) { parts_.push_back(start << 16 | width); }
  /// The lowest `count` bits, up to 12 at a time.
  void put_even(std::uint32_t bits, int count) {
    put(bits << (kProbabilityBits - count), kWhole >> count);
  }
  /// A segment is over.
  void end_segment() {
    if (parts_.size() >= kChunk) flush();
  }
  double bits() const;
  std::vector<std::byte> finish() {
    flush();
    return std::move(bytes_);
  }

 private:
  void flush();

  std::vector<std::uint32_t> parts_;
  std::vector<std::byte> bytes_;
  double flushed_bits_ = 0;
};

class RansReader {
 public:
  explicit RansReader(std::span<const std::byte> stream) : stream_(stream) {}

  /// Which slot (0 ... 4095) of the unit interval comes next.
  std::uint32_t peek() const { return states_[lane_] & (kWhole - 1); }
  /// The part it lies in begins `offset` before it.
  void take(std::uint32_t offset, std::uint32_t width) {
    std::uint32_t state = width * (states_[lane_] >> kProbabilityBits) + offset;
    if (stream_.size() - position_ >= 2) [[likely]] {
      // Whether a word is due follows the stream's bits, which no processor foresees: no branch.
      std::uint16_t next;
      std::memcpy(&next, stream_.data() + position_, 2);
      const std::uint32_t due = state < kLeastState;
      state = state << (16 * due) | (next & (0 - due));
      position_ += 2 * due;
    } else if (state < kLeastState) {
      truncated(stream_.size());
    }
    states_[lane_] = state;
    lane_ = (lane_ + 1) % kLanes;
    ++parts_;
  }
  std::uint32_t take_even(int count) {
    const std::uint32_t slot = peek();
    const int rest = kProbabilityBits - count;
    take(slot & ((1u << rest) - 1), 1u << rest);
    return slot >> rest;
  }
  /// @throws Error(kTruncated), Error(kCorrupt): the states do not end where a writer's begin
  void begin_segment() {
    if (parts_ == 0) load();
  }
  void end_segment() {
    if (parts_ >= kChunk) unload();
  }
  /// Whether everything was read and ended well.
  bool at_end() const;

 private:
  void load();
  void unload();
  // Static: a reader whose address nobody has stays in registers.
  [[noreturn]] static void truncated(std::size_t stream_bytes);
  bool states_at_rest() const;

  std::span<const std::byte> stream_;
  std::size_t position_ = 0;
  std::size_t parts_ = 0;  ///< of this chunk
  std::array<std::uint32_t, kLanes> states_{};
  unsigned lane_ = 0;
};

}  // namespace gbcompress::codec
