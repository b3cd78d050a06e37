#include "base/fresh_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gbcompress {
namespace {

/// Bytes from which on huge pages are worth asking for, and one of them.
constexpr std::size_t kHuge = std::size_t{4} << 20, kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096, kCacheLine = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void ask_huge_pages(void* memory, std::size_t bytes) noexcept {
  if (bytes < kHuge) return;
  const std::size_t first = rounded_up(reinterpret_cast<std::uintptr_t>(memory), kPage);
  (void)::madvise(reinterpret_cast<void*>(first), bytes - kPage, MADV_HUGEPAGE);
}

FreshMemory::FreshMemory(std::size_t bytes) : size_(bytes) {
  const std::size_t unit = bytes < kHuge ? kCacheLine : kHugePage;
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(unit, rounded_up(std::max<std::size_t>(bytes, 1), unit))));
  if (!memory_) throw std::bad_alloc();
  ask_huge_pages(memory_.get(), rounded_up(bytes, unit));
}

void FreshMemory::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

}  // namespace gbcompress
