#include "gbcompress/error.h"

#include <atomic>

namespace gbcompress {
namespace {
std::atomic<int> requested{0};
std::atomic<int> checkpoint{0};
static_assert(std::atomic<int>::is_always_lock_free);
}  // namespace

void request_interrupt(int signal) noexcept { requested.store(signal); }
int interrupt_requested() noexcept { return requested.load(); }
void request_checkpoint() noexcept { checkpoint.store(1); }
bool take_checkpoint_request() noexcept { return checkpoint.exchange(0) != 0; }
void throw_if_interrupted() {
  if (interrupt_requested())
    throw Error(Errc::kInterrupted, "stopped on request; nothing was written");
}

}  // namespace gbcompress
