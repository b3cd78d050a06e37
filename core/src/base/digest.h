#pragma once
/// XXH3-64 against damage, SHA-256 as identity; sha256() of bytes in memory is in tensors.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/internal.h"
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

}  // namespace gbcompress
