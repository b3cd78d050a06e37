#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
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

namespace {

/// Hands out items in order.
class BoundedWork {
 public:
  BoundedWork(const std::vector<std::int64_t>& sizes, std::int64_t most, int threads)
      : sizes_(sizes), threads_(std::max(threads, 1)), most_(std::max<std::int64_t>(most, 1)) {
    for (const std::int64_t size : sizes) most_ = std::max(most_, size);
  }

  void run(const std::function<void(std::size_t, int)>& body) {
    const std::int64_t workers =
        std::min<std::int64_t>(threads_, static_cast<std::int64_t>(sizes_.size()));
    parallel_tasks(threads_, workers, [&](std::int64_t) { work(body); });
  }

 private:
  int share(std::size_t i) const {
    return static_cast<int>(std::max<std::int64_t>(1, threads_ * sizes_[i] / most_));
  }
  bool may_begin() const {
    return busy_ == 0 || (size_ + sizes_[next_] <= most_ && busy_ + share(next_) <= threads_);
  }
  void work(const std::function<void(std::size_t, int)>& body) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return next_ >= sizes_.size() || may_begin(); });
      if (next_ >= sizes_.size()) return;
      const std::size_t i = next_++;
      size_ += sizes_[i];
      busy_ += share(i);
      lock.unlock();
      try {
        body(i, share(i));
      } catch (...) {
        lock.lock();
        next_ = sizes_.size();
        changed_.notify_all();
        throw;
      }
      lock.lock();
      size_ -= sizes_[i];
      busy_ -= share(i);
      changed_.notify_all();
    }
  }

  const std::vector<std::int64_t>& sizes_;
  const int threads_;
  std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::int64_t size_ = 0;  ///< in work
  int busy_ = 0;           ///< threads
};

}  // namespace

void bounded_tasks(const std::vector<std::int64_t>& sizes, std::int64_t most, int threads,
                   const std::function<void(std::size_t, int)>& body) {
  BoundedWork(sizes, most, threads).run(body);
}

}  // namespace gbcompress
