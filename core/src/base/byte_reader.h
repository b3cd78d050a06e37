#pragma once
/// Little-endian reading from a bounded range; running out is an error before anything is touched.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress {

static_assert(std::endian::native == std::endian::little, "file formats here are little-endian");

class ByteReader {
 public:
  /// @param label  what the bytes are, for messages: "model.safetensors: header"
  ByteReader(std::span<const std::byte> bytes, std::string label)
      : bytes_(bytes), label_(std::move(label)) {}

  std::size_t position() const noexcept { return position_; }
  std::size_t remaining() const noexcept { return bytes_.size() - position_; }

  /// The next n bytes. @throws Error(kTruncated)
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > remaining())
      throw Error(Errc::kTruncated, label_ + " ends at byte " + std::to_string(bytes_.size()) +
                                        ", " + std::to_string(n) + " more were expected at " +
                                        std::to_string(position_));
    auto result = bytes_.subspan(position_, n);
    position_ += n;
    return result;
  }
  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string label_;
  std::size_t position_ = 0;
};

/// Appends the bytes of a number.
template <typename Bytes, typename T>
void append_number(Bytes& bytes, T value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), p, p + sizeof value);
}

}  // namespace gbcompress
