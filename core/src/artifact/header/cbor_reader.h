#pragma once
/// A strict reader for the CBOR (RFC 8949) of artifact headers. The caller reads what the format
/// has next, so nesting is as deep as the format and nothing is allocated but the texts returned.
/// Integers, UTF-8 text, arrays and maps of definite length, and float32 exist; nothing else does.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_reader.h"

namespace gbcompress {

class CborReader {
 public:
  CborReader(std::span<const std::byte> bytes, std::string label);

  /// Number of entries that follow. @throws Error(kCorrupt) for another type, Error(kTruncated)
  std::int64_t map() { return length(5); }
  std::int64_t array() { return length(4); }
  std::string text();
  std::uint64_t unsigned_number() { return head(0); }
  /// Whether an unsigned number comes next. @throws Error(kTruncated) at the end
  bool at_unsigned() const;
  /// -2^62 to 2^62.
  std::int64_t integer();
  float float32();
  /// @throws Error(kCorrupt) where bytes remain
  void finish() const;

  /// Of the bytes before.
  Error error(std::string_view why) const;
  [[noreturn]] void corrupt(std::string_view why) const;

 private:
  std::uint64_t argument(unsigned char first);
  std::uint64_t head(unsigned major);
  std::int64_t length(unsigned major);

  ByteReader bytes_;
  std::string label_;
};

}  // namespace gbcompress
