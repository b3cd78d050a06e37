#include "artifact/file_digest.h"

#include <algorithm>

#include "artifact/header/header.h"
#include "base/mapped_inputs.h"

namespace gbcompress {
namespace {

constexpr std::size_t kTakenPiece = std::size_t{16} << 20;

}  // namespace

bool has_own_digest(std::span<const std::byte> part) {
  if (part.size() <= kDigestBytes) return false;
  Sha256 digest;
  digest.update(part.first(part.size() - kDigestBytes));
  const auto stored = part.last(kDigestBytes);
  const std::string found = digest.finish();
  return std::equal(stored.begin(), stored.end(), reinterpret_cast<const std::byte*>(found.data()));
}

FileDigest::FileDigest(std::span<const std::byte> file, std::string label, bool compare,
                       std::size_t draft)
    : content_(file.first(file.size() - kDigestBytes)),
      stored_(file.last(kDigestBytes)),
      label_(std::move(label)),
      compare_(compare),
      draft_(file.first(draft)) {}

#ifndef GBC_FREESTANDING  // which writes no files
FileDigest::FileDigest(std::span<const std::byte> file, std::string label, KnownContent known)
    : FileDigest(file, std::move(label)) {
  known_ = std::move(known);
  checksum_ = std::make_unique<Xxh3>();
}
#endif

void FileDigest::advance(std::size_t bytes) {
  const auto piece = content_.subspan(taken_, std::min(bytes, content_.size() - taken_));
  take(piece);
  taken_ += piece.size();
  release_taken();
}

#ifdef GBC_FREESTANDING  // whose bytes belong to its caller
void FileDigest::take(std::span<const std::byte> piece) { digest_.update(piece); }
void FileDigest::release_taken() {}
#else
void FileDigest::take(std::span<const std::byte> piece) {
  checksum_ ? checksum_->update(piece) : digest_.update(piece);
}
/// Of large files pages leave memory after they were read.
void FileDigest::release_taken() {
  constexpr std::size_t kLarge = std::size_t{64} << 20, kPiece = std::size_t{8} << 20;
  if (content_.size() < kLarge || taken_ - released_ < kPiece) return;
  release_pages(content_.subspan(released_, taken_ - released_));
  released_ = taken_;
}
#endif

#ifndef GBC_FREESTANDING
void FileDigest::keep_up(std::size_t bytes) noexcept {
  if (!compare_) return;
  owed_ += bytes;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  while (const std::size_t owed = owed_.exchange(0)) advance(owed);
}
#endif

#ifdef __wasm__
// Of a host that has SHA-256 as instructions. @return 0 where it has not
extern "C" __attribute__((import_module("gbz"), import_name("sha256"))) int gbz_host_sha256(
    const std::byte* bytes, std::size_t size, char* digest);
#endif
std::string FileDigest::take_rest() {
#ifdef __wasm__
  std::string digest(32, '\0');
  if (taken_ == 0 && gbz_host_sha256(content_.data(), content_.size(), digest.data()) != 0) {
    taken_ = content_.size();
    return digest;
  }
#endif
  while (taken_ < content_.size()) advance(kTakenPiece);
#ifndef GBC_FREESTANDING
  if (known_)
    return checksum_->value() == known_->checksum ? known_->sha256 : std::string(32, '\0');
#endif
  return digest_.finish();
}

void FileDigest::check() {
  if (!compare_) return;
  const std::lock_guard lock(mutex_);
  if (identity_.empty()) {
    const std::string digest = take_rest();
    fits_ = std::equal(stored_.begin(), stored_.end(),
                       reinterpret_cast<const std::byte*>(digest.data()));
    identity_ = to_hex(digest);
  }
  if (fits_) return;
  check_mapped_inputs();  // a file that became shorter since
  const bool advised = has_own_digest(draft_);
  throw Error(Errc::kCorrupt, label_ + " is damaged: its digest does not fit; copy it again" +
                                  (advised ? kDraftAdvice : ""));
}

const std::string& FileDigest::identity() {
  check();
  return identity_;
}

}  // namespace gbcompress
