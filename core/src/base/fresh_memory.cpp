#include "base/fresh_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gbcompress {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20, kCacheLine = 64;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void ask_huge_pages(void* memory, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  // Whole ones, because what lies behind the memory would be touched along with the last.
  const std::size_t skipped = rounded_up(begin, kHugePage) - begin;
  const std::size_t whole = bytes > skipped ? (bytes - skipped) / kHugePage * kHugePage : 0;
  if (whole > 0) (void)::madvise(static_cast<std::byte*>(memory) + skipped, whole, MADV_HUGEPAGE);
}

void give_back_pages(void* memory, std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t skipped = rounded_up(begin, page) - begin;
  const std::size_t whole = bytes > skipped ? (bytes - skipped) / page * page : 0;
  if (whole > 0) (void)::madvise(static_cast<std::byte*>(memory) + skipped, whole, MADV_DONTNEED);
}

FreshMemory::FreshMemory(std::size_t bytes) : size_(bytes) {
  const std::size_t unit = bytes < kHugePage ? kCacheLine : kHugePage;
  memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(unit, rounded_up(std::max<std::size_t>(bytes, 1), unit))));
  if (!memory_) throw std::bad_alloc();
  ask_huge_pages(memory_.get(), bytes);
}

void FreshMemory::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

}  // namespace gbcompress
