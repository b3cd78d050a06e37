#include "base/digest.h"

#include <openssl/evp.h>

#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gbcompress/error.h"

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

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_ ||
      EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) != 1)
    throw Error(Errc::kFailure, "OpenSSL provides no SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
}

std::string Sha256::finish() {
  std::string digest(32, '\0');
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_),
                     reinterpret_cast<unsigned char*>(digest.data()), nullptr);
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
