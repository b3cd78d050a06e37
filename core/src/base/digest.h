#pragma once
/// XXH3-64 against damage, SHA-256 as identity; sha256() of bytes in memory is in tensors.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/internal.h"
#include "base/sha256_blocks.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

std::uint64_t xxh3_64(std::span<const std::byte> bytes);

/// The same piece by piece.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  void* state_;
};

/// SHA-256 (FIPS 180-4) piece by piece, of at most 2^61 bytes.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  std::string finish();  ///< 32 raw bytes; call once

 private:
  Sha256State state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kSha256Block> rest_{};  ///< the last bytes, less than a block
  std::uint64_t bytes_ = 0;
};

/// Compares secrets: the time tells their length, and nothing of where they differ.
bool equal_in_fixed_time(std::string_view a, std::string_view b);

}  // namespace gbcompress
