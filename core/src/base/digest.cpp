#include "base/digest.h"

#include <algorithm>
#include <cstring>
#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace gbcompress {

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

Xxh3::~Xxh3() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void Xxh3::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

std::uint64_t Xxh3::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

void Sha256::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  static const Sha256Blocks native = sha256_blocks_native();
  const Sha256Blocks add = native ? native : &sha256_blocks_portable;
  const std::size_t held = bytes_ % kSha256Block;
  bytes_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(kSha256Block - held, bytes.size());
    std::memcpy(&rest_[held], bytes.data(), taken);
    bytes = bytes.subspan(taken);
    if (held + taken < kSha256Block) return;
    add(state_, rest_.data(), 1);
  }
  const std::size_t blocks = bytes.size() / kSha256Block;
  add(state_, bytes.data(), blocks);
  const auto rest = bytes.subspan(blocks * kSha256Block);
  std::copy(rest.begin(), rest.end(), rest_.begin());
}

std::string Sha256::finish() {
  // A bit, zeros, and the length in bits as the last eight bytes of a block.
  std::array<std::byte, 2 * kSha256Block> padding{std::byte{0x80}};
  const std::uint64_t bits = 8 * bytes_;
  const std::size_t zeros_end = (bytes_ % kSha256Block < 56 ? 56 : 120) - bytes_ % kSha256Block;
  for (std::size_t i = 0; i < 8; ++i)
    padding[zeros_end + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span(padding).first(zeros_end + 8));
  std::string digest;
  for (const std::uint32_t word : state_)
    for (int shift = 24; shift >= 0; shift -= 8) digest += static_cast<char>(word >> shift);
  return digest;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

bool equal_in_fixed_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char differences = 0;  // volatile: the compiler may not stop at the first one
  for (std::size_t i = 0; i < a.size(); ++i)
    differences = static_cast<unsigned char>(differences | (a[i] ^ b[i]));
  return differences == 0;
}

std::string to_hex(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : bytes) text += {kHex[c >> 4], kHex[c & 15]};
  return text;
}

}  // namespace gbcompress
