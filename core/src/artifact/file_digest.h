#pragma once
/// The digest that a file ends with, checked at once or along with decoding.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/digest.h"
#include "base/mapped_inputs.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// What an error about a file with layers ends with where its draft is whole.
inline constexpr const char* kDraftAdvice =
    ", or read its draft alone, which is whole, with `draft`";
/// Whether bytes end with their digest.
bool has_own_digest(std::span<const std::byte> part);

/// What is known of the content of a file since it was written.
struct KnownContent {
  std::string sha256;          ///< 32 raw bytes
  std::uint64_t checksum = 0;  ///< XXH3-64
};

class FileDigest {
 public:
  /// @param file     of more bytes than a digest; must outlive this
  /// @param compare  false: nothing is checked, and identity() is ""
  /// @param draft    of a file with layers: bytes of its first part, which may be whole where the
  ///                 file is not
  FileDigest(std::span<const std::byte> file, std::string label, bool compare = true,
             std::size_t draft = 0);
  /// Of a file that was just written: the content is compared by its checksum, which is faster.
  FileDigest(std::span<const std::byte> file, std::string label, KnownContent known);

  /// That many bytes were just decoded: takes about as many into the digest, from where it
  /// stands. Decoders mostly go through a file in its order, so that these are in caches. A thread
  /// that finds another one at it leaves its share to that one. [thread-safe]
#ifdef GBC_FREESTANDING  // libgbz compares the digest at once
  void keep_up(std::size_t) noexcept {}
#else
  void keep_up(std::size_t bytes) noexcept;
#endif
  /// Takes what is left, and compares. [thread-safe]
  /// @throws Error(kCorrupt)
  void check();
  /// In hexadecimal, once it is checked. @throws Error(kCorrupt)
  const std::string& identity();

 private:
  void advance(std::size_t bytes);
  void take(std::span<const std::byte> piece);
  void release_taken();
  std::string take_rest();  ///< @return the digest

  const std::span<const std::byte> content_, stored_;
  const std::string label_;
  const bool compare_;
  const std::span<const std::byte> draft_;
  std::atomic<std::size_t> owed_ = 0;
  std::mutex mutex_;
  Sha256 digest_;
#ifndef GBC_FREESTANDING
  std::optional<KnownContent> known_;
  std::unique_ptr<Xxh3> checksum_;  ///< in place of digest_
#endif
  std::size_t taken_ = 0, released_ = 0;
  bool fits_ = false;
  std::string identity_;  ///< "" until all is taken
};

/// What body() returns; of a file whose decoding fails, damage is the reason where there is some.
/// @throws what body() throws, or Error(kCorrupt) for a digest that does not fit, or what
///         check_mapped_inputs() throws
template <typename Body>
auto blame_damage([[maybe_unused]] const ArtifactReader& artifact, const Body& body) {
#ifdef GBC_FREESTANDING  // libgbz compares the digest at once
  return body();
#else
  try {
    return body();
  } catch (const Error& error) {
    const Errc code = error.code();
    if (code == Errc::kCorrupt || code == Errc::kTruncated || code == Errc::kUnsupported ||
        code == Errc::kLimit) {
      check_mapped_inputs();
      artifact.check_digest();
    }
    throw;
  }
#endif
}

}  // namespace gbcompress
