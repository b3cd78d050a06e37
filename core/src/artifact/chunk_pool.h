#pragma once
/// Memory of decoded stripes, used again: touching memory for the first time costs a third of the
/// time of decoding into it.

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fresh_memory.h"

namespace gbcompress {

class ChunkPool : public std::enable_shared_from_this<ChunkPool> {
 public:
  /// @param bytes  of a chunk
  explicit ChunkPool(std::size_t bytes) : bytes_(bytes) {}

  std::size_t bytes() const noexcept { return bytes_; }
  /// A chunk that goes back with the last copy of the result. [thread-safe] @throws std::bad_alloc
  std::shared_ptr<std::byte> take() {
    std::byte* chunk = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (free_.empty()) grow();
      chunk = free_.back();
      free_.pop_back();
    }
    return {chunk, [self = shared_from_this()](std::byte* done) {
              const std::lock_guard lock(self->mutex_);
              self->free_.push_back(done);
            }};
  }

 private:
  /// Several at once, which fill huge pages.
  void grow() {
    constexpr std::size_t kChunks = 8;
    free_.reserve(free_.capacity() + kChunks);
    const std::byte* first = slabs_.emplace_back(kChunks * bytes_).data();
    for (std::size_t i = 0; i < kChunks; ++i)
      free_.push_back(const_cast<std::byte*>(first) + i * bytes_);
  }

  const std::size_t bytes_;
  std::mutex mutex_;
  std::list<FreshMemory> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace gbcompress
