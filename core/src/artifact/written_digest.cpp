#include "artifact/written_digest.h"

#include "base/parallel.h"

namespace gbcompress {
namespace {

/// A smaller piece takes less time than handing it over.
constexpr std::size_t kLeastPiece = std::size_t{1} << 16;

}  // namespace

WrittenDigest::WrittenDigest() {
  if (usable_processors() > 1) thread_ = std::thread([this] { work(); });
}

WrittenDigest::~WrittenDigest() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WrittenDigest::take(std::span<const std::byte> piece) {
  sha256_.update(piece);
  checksum_.update(piece);
}

void WrittenDigest::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || !piece_.empty(); });
    if (piece_.empty()) return;
    lock.unlock();
    take(piece_);
    lock.lock();
    piece_ = {};
    changed_.notify_all();
  }
}

void WrittenDigest::write(AtomicFile& file, std::span<const std::byte> piece) {
  if (!thread_.joinable() || piece.size() < kLeastPiece) {
    take(piece);
    return file.write(piece);
  }
  {
    const std::lock_guard lock(mutex_);
    piece_ = piece;
  }
  changed_.notify_all();
  // The thread reads the piece, which is the caller's, until it is done with it.
  std::exception_ptr failed;
  try {
    file.write(piece);
  } catch (...) {
    failed = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return piece_.empty(); });
  if (failed) std::rethrow_exception(failed);
}

KnownContent WrittenDigest::content() const {
  Sha256 so_far = sha256_;
  return {so_far.finish(), checksum_.value()};
}

}  // namespace gbcompress
