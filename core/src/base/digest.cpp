#include "base/digest.h"

// The old interface on purpose: linked statically, EVP brings all of libcrypto (4 MB) along.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

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

Sha256::Sha256() : context_(new SHA256_CTX) { SHA256_Init(static_cast<SHA256_CTX*>(context_)); }

Sha256::~Sha256() { delete static_cast<SHA256_CTX*>(context_); }

void Sha256::update(std::span<const std::byte> bytes) {
  SHA256_Update(static_cast<SHA256_CTX*>(context_), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), static_cast<SHA256_CTX*>(context_));
  return digest;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : bytes) text += {kHex[c >> 4], kHex[c & 15]};
  return text;
}

}  // namespace gbcompress
