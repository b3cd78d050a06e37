#pragma once
/// Results that are taken in order and made ahead of that on threads, as far as memory allows.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace gbcompress {

template <typename Result>
class Lookahead {
 public:
  /// @param sizes   bytes of each result
  /// @param budget  bytes of all results that are being made or wait; a larger one is alone
  /// @param make    called for 0 ... sizes.size() - 1, each once, on several threads
  Lookahead(int threads, std::vector<std::int64_t> sizes, std::int64_t budget,
            std::function<Result(std::size_t)> make)
      : sizes_(std::move(sizes)),
        budget_(budget),
        make_(std::move(make)),
        results_(sizes_.size()),
        errors_(sizes_.size()) {
    try {
      for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {  // no thread more is to be had
      stop();
      throw;
    }
  }
  ~Lookahead() { stop(); }
  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  /// The next result, which is valid until the next call. @throws what make() threw
  Result next() {
    std::unique_lock lock(mutex_);
    if (taken_ > 0) held_ -= sizes_[taken_ - 1];
    changed_.notify_all();
    const std::size_t i = taken_++;
    changed_.wait(lock, [&] { return results_[i] || errors_[i]; });
    if (errors_[i]) std::rethrow_exception(errors_[i]);
    Result result = std::move(*results_[i]);
    results_[i].reset();
    return result;
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  bool may_begin() const { return held_ == 0 || held_ + sizes_[begun_] <= budget_; }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || begun_ >= sizes_.size() || may_begin(); });
      if (stopped_ || begun_ >= sizes_.size()) return;
      const std::size_t i = begun_++;
      held_ += sizes_[i];
      lock.unlock();
      std::optional<Result> result;
      std::exception_ptr error;
      try {
        result.emplace(make_(i));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      results_[i] = std::move(result);
      errors_[i] = error;
      changed_.notify_all();
    }
  }

  const std::vector<std::int64_t> sizes_;
  const std::int64_t budget_;
  const std::function<Result(std::size_t)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Result>> results_;
  std::vector<std::exception_ptr> errors_;
  std::size_t begun_ = 0, taken_ = 0;
  std::int64_t held_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace gbcompress
