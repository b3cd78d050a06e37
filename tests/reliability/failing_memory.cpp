#include "reliability/failing_memory.h"

#include <cerrno>
#include <cstdlib>
#include <new>

namespace {

struct State {
  bool armed = false, forever = false;
  long left = 0, failed = 0, held = 0;
};
thread_local constinit State state;

bool fails() noexcept {
  if (!state.armed) return false;
  if (state.left > 0) {
    --state.left;
    return false;
  }
  if (state.left < 0 && !state.forever) return false;
  state.left = -1;
  ++state.failed;
  return true;
}

}  // namespace

namespace gbcompress::testing {

FailingMemory::FailingMemory(long first, bool forever) noexcept {
  state.left = first;
  state.forever = forever;
  state.failed = 0;
  state.armed = true;
}
FailingMemory::~FailingMemory() { state.armed = false; }

long failed_allocations() noexcept { return state.failed; }
long held_blocks() noexcept { return state.held; }

}  // namespace gbcompress::testing

#ifdef __SANITIZE_ADDRESS__

void* operator new(std::size_t bytes) {
  void* block = fails() ? nullptr : std::malloc(bytes);
  if (!block) throw std::bad_alloc();
  ++state.held;
  return block;
}
void operator delete(void* block) noexcept {
  if (block) --state.held;
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

#else

extern "C" {

// NOLINTBEGIN: the C library's own names
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
// NOLINTEND

static void* counted(void* block) noexcept {
  if (block) ++state.held;
  return block;
}
static void* none() noexcept {
  errno = ENOMEM;
  return nullptr;
}

void* malloc(std::size_t bytes) noexcept {
  return fails() ? none() : counted(__libc_malloc(bytes));
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return fails() ? none() : counted(__libc_calloc(count, bytes));
}
void* realloc(void* block, std::size_t bytes) noexcept {
  if (fails()) return none();
  if (!block) return counted(__libc_malloc(bytes));
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return fails() ? none() : counted(__libc_memalign(alignment, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return aligned_alloc(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  *block = aligned_alloc(alignment, bytes);
  return *block ? 0 : ENOMEM;
}
void free(void* block) noexcept {
  if (block) --state.held;
  __libc_free(block);
}

}  // extern "C"

#endif
