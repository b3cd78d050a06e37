// malloc() and free() in place of those of wasi-libc, whose code is 8 kB.
#include <cstddef>
#include <cstdint>

namespace {

/// A part of the heap. What is in use lies behind its size.
struct alignas(16) Block {
  std::size_t size;  ///< with this
  Block* next;       ///< of the free ones, which are in the order of their addresses

  char* end() { return reinterpret_cast<char*>(this) + size; }
};

constexpr std::size_t kPage = 65536;
Block* first = nullptr;
bool begun = false;

/// Frees a block, together with those beside it.
void give(Block* block) {
  Block** link = &first;
  Block* before = nullptr;
  while (*link && *link < block) {
    before = *link;
    link = &before->next;
  }
  block->next = *link;
  *link = block;
  const auto join = [](Block* low) {
    if (low->end() != reinterpret_cast<char*>(low->next)) return;
    low->size += low->next->size;
    low->next = low->next->next;
  };
  if (block->next) join(block);
  if (before) join(before);
}

/// Makes [begin, end) of the heap.
void add(std::uintptr_t begin, std::uintptr_t end) {
  auto* const block = reinterpret_cast<Block*>(begin);
  block->size = end - begin;
  give(block);
}

}  // namespace

extern "C" {

extern char __heap_base;

void* malloc(std::size_t bytes) {
  constexpr std::size_t kUnit = sizeof(Block);
  if (bytes > SIZE_MAX - 2 * kPage) return nullptr;
  const std::size_t size = (bytes + 2 * kUnit - 1) / kUnit * kUnit;
  if (!begun) {
    begun = true;
    const auto base = reinterpret_cast<std::uintptr_t>(&__heap_base);
    add((base + kUnit - 1) / kUnit * kUnit, __builtin_wasm_memory_size(0) * kPage);
  }
  for (;;) {
    Block* last = nullptr;
    for (Block** link = &first; *link; link = &last->next) {
      last = *link;
      if (last->size < size) continue;
      if (last->size - size < 2 * kUnit) {
        *link = last->next;
      } else {
        auto* const rest = reinterpret_cast<Block*>(reinterpret_cast<char*>(last) + size);
        *rest = {last->size - size, last->next};
        *link = rest;
        last->size = size;
      }
      return last + 1;
    }
    const std::size_t end = __builtin_wasm_memory_size(0) * kPage;
    const bool at_end = last && last->end() == reinterpret_cast<char*>(end);
    const std::size_t pages = (size - (at_end ? last->size : 0) + kPage - 1) / kPage;
    if (__builtin_wasm_memory_grow(0, pages) == SIZE_MAX) return nullptr;
    add(end, end + pages * kPage);
  }
}

void free(void* memory) {
  if (memory) give(static_cast<Block*>(memory) - 1);
}

std::size_t strlen(const char* text) {
  std::size_t size = 0;
  while (text[size]) ++size;
  return size;
}

void* memchr(const void* bytes, int byte, std::size_t size) {
  auto* at = static_cast<const unsigned char*>(bytes);
  for (; size > 0; --size, ++at)
    if (*at == static_cast<unsigned char>(byte)) return const_cast<unsigned char*>(at);
  return nullptr;
}

}  // extern "C"
