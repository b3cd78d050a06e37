#include "artifact/header/cbor_reader.h"

#include <utility>

#include "artifact/header/text.h"

namespace gbcompress {

CborReader::CborReader(std::span<const std::byte> bytes, std::string label)
    : bytes_(bytes, label), label_(std::move(label)) {}

Error CborReader::error(std::string_view why) const {
  return {Errc::kCorrupt,
          label_ + ", byte " + std::to_string(bytes_.position()) + ": " + std::string(why)};
}

void CborReader::corrupt(std::string_view why) const { throw error(why); }

std::uint64_t CborReader::argument(unsigned char first) {
  const unsigned info = first & 31;
  switch (info) {
    case 24:
      return bytes_.read<std::uint8_t>();
    case 25:
      return __builtin_bswap16(bytes_.read<std::uint16_t>());
    case 26:
      return __builtin_bswap32(bytes_.read<std::uint32_t>());
    case 27:
      return __builtin_bswap64(bytes_.read<std::uint64_t>());
    default:
      break;
  }
  if (info > 27) corrupt("a length that is not definite");
  return info;
}

std::uint64_t CborReader::head(unsigned major) {
  const auto first = bytes_.read<unsigned char>();
  if (first >> 5 != major) {
    static constexpr const char* kNames[] = {
        "an unsigned number", "a negative number", "bytes", "text", "an array", "a map", "a tag",
        "a simple value"};
    throw error(std::string(kNames[major]) + " was expected, " + kNames[first >> 5] + " is there");
  }
  return argument(first);
}

std::int64_t CborReader::length(unsigned major) {
  const std::uint64_t n = head(major);
  // Every entry takes at least one byte.
  if (n > bytes_.remaining()) corrupt("more entries are declared than there are bytes");
  return static_cast<std::int64_t>(n);
}

std::string CborReader::text() {
  const auto bytes = bytes_.take(head(3));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_utf8(text)) corrupt("text that is not UTF-8");
  return text;
}

std::int64_t CborReader::integer() {
  const auto first = bytes_.read<unsigned char>();
  if (first >> 5 > 1) corrupt("an integer was expected");
  const std::uint64_t n = argument(first);
  if (n > std::uint64_t{1} << 62) corrupt("an integer beyond 2^62");
  return first >> 5 == 0 ? static_cast<std::int64_t>(n) : -1 - static_cast<std::int64_t>(n);
}

bool CborReader::at_unsigned() const {
  ByteReader ahead = bytes_;
  return ahead.read<unsigned char>() >> 5 == 0;
}

float CborReader::float32() {
  if (bytes_.read<unsigned char>() != 0xFA) corrupt("a float32 was expected");
  return std::bit_cast<float>(__builtin_bswap32(bytes_.read<std::uint32_t>()));
}

void CborReader::finish() const {
  if (bytes_.remaining() > 0) throw error(std::to_string(bytes_.remaining()) + " bytes too many");
}

}  // namespace gbcompress
