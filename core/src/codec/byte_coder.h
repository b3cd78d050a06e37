#pragma once
/// Bytes without any order among them, such as the exponents of floats: interleaved states of rANS
/// and a table for each class of runs (docs/reference/codec.md, Bytes).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/byte_reader.h"

namespace gbcompress::codec {

inline constexpr std::size_t kByteValues = 256;
inline constexpr std::size_t kMostByteTables = 16;  ///< of a plane
inline constexpr std::size_t kLeastRun = 128;       ///< bytes

/// Lanes of a stream: short streams have few lanes, whose states take fewer bytes.
constexpr std::size_t lanes_of(std::size_t bytes) { return bytes < 16'384 ? 4 : 32; }

using ByteCounts = std::array<std::uint32_t, kByteValues>;

/// Adds each byte to the counts.
void count_bytes(std::span<const std::byte> bytes, ByteCounts& counts);

/// Parts of the unit interval, 4096 together, each at most 4095.
using ByteWidths = std::array<std::uint16_t, kByteValues>;

/// Each counted byte gets a width above 0. @param total  of the counts, above 0
ByteWidths byte_widths(std::span<const std::uint32_t, kByteValues> counts, std::uint64_t total);

void append_widths(std::vector<std::byte>& to, const ByteWidths& widths);
/// @throws Error(kCorrupt, kTruncated)
ByteWidths read_widths(ByteReader& in, const std::string& label);

/// The table of each run of bytes.
struct ByteClasses {
  std::span<const std::uint8_t> of_run;  ///< empty: all are 0
  std::size_t run = 0;                   ///< bytes, a multiple of kLeastRun
  std::size_t first = 0;                 ///< the table that class 0 names

  /// Below the number of tables.
  std::size_t at(std::size_t byte) const {
    return first + (of_run.empty() ? 0 : of_run[byte / run]);
  }
};

class ByteEncoder {
 public:
  explicit ByteEncoder(std::span<const ByteWidths> tables);

  /// @param bytes  each with a width in the table of its run
  /// @param words  scratch memory
  void encode(std::span<const std::byte> bytes, const ByteClasses& classes,
              std::vector<std::uint16_t>& words, std::vector<std::byte>& to) const;

 private:
  std::vector<std::uint32_t> parts_;  ///< [table][byte] width above 16 bits of start
};

class ByteDecoder {
 public:
  ByteDecoder() = default;
  explicit ByteDecoder(std::span<const ByteWidths> tables);

  /// One more table.
  void add(const ByteWidths& widths);
  std::size_t tables() const noexcept { return entries_.size() >> 12; }
  /// @param bytes  as many as were encoded
  /// @throws Error(kCorrupt, kTruncated) for streams that no encoder writes
  void decode(std::span<const std::byte> stream, const ByteClasses& classes,
              std::span<std::byte> bytes) const;

 private:
  std::vector<std::uint32_t>
      entries_;  ///< of each slot: byte, width, place of the slot in its part
};

}  // namespace gbcompress::codec
