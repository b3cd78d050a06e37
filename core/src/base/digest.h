#pragma once
/// XXH3-64 against damage, SHA-256 as identity.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gbcompress {

std::uint64_t xxh3_64(std::span<const std::byte> bytes);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  std::string finish();  ///< 32 raw bytes; call once

 private:
  void* context_;
};

std::string sha256(std::span<const std::byte> bytes);  ///< 32 raw bytes
std::string to_hex(std::string_view bytes);

}  // namespace gbcompress
