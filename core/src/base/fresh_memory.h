#pragma once
/// Memory for results that are written once, front to back or by several threads.

#include <cstddef>
#include <memory>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Asks the system for huge pages: touching memory for the first time costs most of a large
/// tensor's time in small ones. Only a wish; what fills no
/// huge page of 2 MiB is left as it is.
void ask_huge_pages(void* memory, std::size_t bytes) noexcept;

/// Gives whole pages back to the system; reading them later gives zeros, where nothing was written.
void give_back_pages(void* memory, std::size_t bytes) noexcept;

/// to.resize(size) of an empty list, in huge pages where it is long.
template <typename T>
void resize_fresh(std::vector<T>& to, std::size_t size) {
  to.reserve(size);
  ask_huge_pages(to.data(), size * sizeof(T));
  to.resize(size);
}

/// Bytes that are not set to anything, with huge pages where they are many.
class FreshMemory {
 public:
  /// @throws std::bad_alloc
  explicit FreshMemory(std::size_t bytes);

  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_;
};

}  // namespace gbcompress
