#pragma once
/// Memory of a handle, and calls that end where something is refused.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "gbz.h"

#ifndef __wasm__
#include <csetjmp>
#endif

namespace gbz {

/// All memory that the decoder takes for one handle, in a list: it is given back as a whole.
class Arena {
 public:
  explicit Arena(const gbz_allocator& allocator, std::uint64_t most)
      : allocator_(allocator), most_(most) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release_since(0); }

  /// Null where the allocator has none, or the limit is reached.
  void* allocate(std::size_t bytes, std::size_t alignment);
  void release(void* memory);

  /// Begins a trial: what is taken from now on goes at its end, unless it is kept.
  void try_out() { trial_ = number_; }
  void end_trial(bool keep) {
    if (!keep && trial_) release_since(*trial_);
    trial_.reset();
  }

 private:
  struct Block {
    Block *older, *newer;
    void* begin;
    std::uint64_t number;
    std::size_t bytes;
  };
  void unlink(Block* block);
  /// The blocks taken after the one with that number.
  void release_since(std::uint64_t number);

  gbz_allocator allocator_;
  std::uint64_t most_, taken_ = 0, number_ = 0;
  std::optional<std::uint64_t> trial_;  ///< the newest block's number before it
  Block* newest_ = nullptr;
};

/// A call of the interface on this thread.
struct Call {
  Arena& arena;
  gbz_error* error;
  gbz_status status = GBZ_OK;
#ifndef __wasm__
  std::jmp_buf back;
#endif
};

#ifdef __wasm__  // where an instance has one thread
#define GBZ_THREAD_LOCAL
#else
#define GBZ_THREAD_LOCAL thread_local
#endif
extern constinit GBZ_THREAD_LOCAL Call* current;

/// Ends the call under way; its function returns the status.
#ifdef GBZ_WITHOUT_SENTENCES
[[noreturn]] inline void end_call(gbz_status, const char*) { leave(); }
#else
[[noreturn]] void end_call(gbz_status status, const char* text);
#endif
[[noreturn]] void out_of_memory();
void set_error(gbz_error* error, gbz_status status, const char* text);
/// Sets an error. @return its status
gbz_status refuse(gbz_error* error, gbz_status status, const char* text);

/// Runs body(), from which end_call() comes back here. What body() holds on its stack then is lost
/// without its destructors: its memory lies in the arena.
template <typename Body>
gbz_status run(Arena& arena, gbz_error* error, const Body& body) {
  Call call{.arena = arena, .error = error};
  Call* const before = current;
  current = &call;
  arena.end_trial(false);  // of a call that an exception of JavaScript left
  set_error(error, GBZ_OK, "");
#ifdef __wasm__
  body();  // end_call() throws an exception of JavaScript through it
#else
  if (setjmp(call.back) == 0) body();
#endif
  current = before;
  return call.status;
}

}  // namespace gbz
