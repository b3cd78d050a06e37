#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gbcompress {

int usable_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void parallel_tasks(int threads, std::int64_t n, const std::function<void(std::int64_t)>& body) {
  const auto workers = static_cast<int>(std::min<std::int64_t>(threads, n));
  if (workers <= 1) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (std::int64_t i; (i = next++) < n;) try {
        body(i);
      } catch (...) {
        next = n;
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
  };
  std::vector<std::jthread> team;
  for (int t = 1; t < workers; ++t) team.emplace_back(work);
  work();
  team.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gbcompress
