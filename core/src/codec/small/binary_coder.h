#pragma once
/// Binary arithmetic coding: 32-bit range, carries, one byte to end a stream.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress::codec {

class BinaryEncoder {
 public:
  /// @param p  probability of a one, 1 ... 65535 in units of 2^-16
  bool code(bool bit, std::uint32_t p) {
    const auto ones = static_cast<std::uint32_t>(std::uint64_t{range_} * p >> 16);
    if (bit) {
      range_ = ones;
    } else {
      low_ += ones;
      range_ -= ones;
    }
    while (range_ < kLeast) shift();
    return bit;
  }

  std::vector<std::byte> finish() {
    // The one byte that, followed by zeros, lies inside the range: it is at least kLeast wide.
    low_ = (low_ + kLeast - 1) & ~std::uint64_t{kLeast - 1};
    shift();
    return std::move(bytes_);
  }

 private:
  static constexpr std::uint32_t kLeast = 1u << 24;

  void shift() {
    if (low_ >> 32) {
      for (std::size_t at = bytes_.size(); at-- > 0;) {
        bytes_[at] = static_cast<std::byte>(std::to_integer<unsigned>(bytes_[at]) + 1);
        if (bytes_[at] != std::byte{0}) break;
      }
    }
    bytes_.push_back(static_cast<std::byte>(low_ >> 24 & 255));
    low_ = (low_ & (kLeast - 1)) << 8;
    range_ <<= 8;
  }

  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0xFFFFFFFF;
  std::vector<std::byte> bytes_;
};

class BinaryDecoder {
 public:
  /// @throws Error(kTruncated), Error(kCorrupt)
  explicit BinaryDecoder(std::span<const std::byte> stream) : stream_(stream) {
    for (int i = 0; i < 4; ++i) shift();
    if (offset_ == range_)
      throw Error(Errc::kCorrupt, "a coded stream begins as none does; get the file again");
  }

  /// @throws Error(kTruncated)
  bool code(bool, std::uint32_t p) {
    const auto ones = static_cast<std::uint32_t>(std::uint64_t{range_} * p >> 16);
    const bool bit = offset_ < ones;
    if (bit) {
      range_ = ones;
    } else {
      offset_ -= ones;
      range_ -= ones;
    }
    while (range_ < kLeast) {
      range_ <<= 8;
      shift();
    }
    return bit;
  }

  /// Whether the stream has just the bytes that were needed.
  bool at_end() const { return position_ == stream_.size() + kImplied; }

 private:
  static constexpr std::uint32_t kLeast = 1u << 24;
  static constexpr std::size_t kImplied = 3;  // zero bytes that follow every stream

  void shift() {
    if (position_ >= stream_.size() + kImplied)
      throw Error(Errc::kTruncated, "a coded stream ends after " + std::to_string(stream_.size()) +
                                        " bytes, before the last value; get the file again");
    const unsigned next =
        position_ < stream_.size() ? std::to_integer<unsigned>(stream_[position_]) : 0;
    ++position_;
    offset_ = offset_ << 8 | next;
  }

  std::span<const std::byte> stream_;
  std::size_t position_ = 0;
  std::uint32_t offset_ = 0;
  std::uint32_t range_ = 0xFFFFFFFF;
};

}  // namespace gbcompress::codec
