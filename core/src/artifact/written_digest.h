#pragma once
/// Digests of a file that are taken while it is written.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "artifact/file_digest.h"
#include "base/digest.h"
#include "gbcompress/atomic_file.h"

namespace gbcompress {

/// Where there are several processors, a thread takes the digest of a piece while the caller writes
/// it.
class WrittenDigest {
 public:
  WrittenDigest();
  ~WrittenDigest();
  WrittenDigest(const WrittenDigest&) = delete;
  WrittenDigest& operator=(const WrittenDigest&) = delete;

  /// Writes a piece. @throws Error(kIo)
  void write(AtomicFile& file, std::span<const std::byte> piece);
  /// Of all that was written so far.
  KnownContent content() const;

 private:
  void take(std::span<const std::byte> piece);
  void work();

  Sha256 sha256_;
  Xxh3 checksum_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const std::byte> piece_;  ///< that the thread takes, until it is empty
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace gbcompress
