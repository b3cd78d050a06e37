#include "workers.h"

namespace gbcompress::al {

Workers::Workers(int threads) {
  for (int i = 1; i < threads; ++i)
    threads_.emplace_back([this] {
      std::unique_lock lock(mutex_);
      while (true) {
        begun_.wait(lock, [&] { return stop_ || next_ < pieces_; });
        if (stop_) return;
        lock.unlock();
        work();
        lock.lock();
      }
    });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (next_ < pieces_) {
    const std::size_t piece = next_++;
    ++running_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*body_)(piece);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    if (--running_ == 0 && next_ == pieces_) done_.notify_all();
  }
}

void Workers::run(std::size_t pieces, const std::function<void(std::size_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    next_ = 0;
    pieces_ = pieces;
    error_ = nullptr;
  }
  begun_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0 && next_ == pieces_; });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace gbcompress::al
