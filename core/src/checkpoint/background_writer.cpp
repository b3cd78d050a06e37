#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "gbcompress/checkpoint.h"

namespace gbcompress {
namespace {

struct Order {
  std::int64_t step = 0;
  std::vector<CheckpointSection> sections;
  CheckpointFacts facts;
};

/// Threads started meanwhile leave signals to the others. SIGXFSZ is then an error of write().
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct BackgroundCheckpointWriter::Impl {
  Impl(std::filesystem::path folder, CheckpointRanks ranks, CheckpointOptions options)
      : warn(options.warn), writer(std::move(folder), std::move(ranks), std::move(options)) {
    const WithoutSignals scope;
    thread = std::thread([this] { work(); });
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return order || stop; });
      if (!order) return;
      lock.unlock();
      std::exception_ptr result;
      try {
        writer.save(order->step, order->sections, order->facts);
      } catch (...) {
        result = std::current_exception();
      }
      lock.lock();
      order.reset();
      failure = result;
      changed.notify_all();
    }
  }

  /// Waits until nothing is under way; hands on a failure once.
  void settle(std::unique_lock<std::mutex>& lock) {
    changed.wait(lock, [&] { return !order; });
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }

  std::function<void(const std::string&)> warn;
  CheckpointWriter writer;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<Order> order;  ///< what is to be saved, until it is
  std::exception_ptr failure;
  bool stop = false;
  std::thread thread;
};

BackgroundCheckpointWriter::BackgroundCheckpointWriter(std::filesystem::path folder,
                                                       CheckpointRanks ranks,
                                                       CheckpointOptions options)
    : impl_(std::make_unique<Impl>(std::move(folder), std::move(ranks), std::move(options))) {}

BackgroundCheckpointWriter::~BackgroundCheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    if (impl_->warn) impl_->warn(error.what());
  } catch (...) {
    if (impl_->warn) impl_->warn("the last checkpoint was not saved");
  }
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

void BackgroundCheckpointWriter::save(std::int64_t step, std::vector<CheckpointSection> sections,
                                      CheckpointFacts facts) {
  std::unique_lock lock(impl_->mutex);
  impl_->settle(lock);
  impl_->order = Order{step, std::move(sections), std::move(facts)};
  impl_->changed.notify_all();
}

void BackgroundCheckpointWriter::finish() {
  std::unique_lock lock(impl_->mutex);
  impl_->settle(lock);
}

bool BackgroundCheckpointWriter::busy() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->order.has_value();
}

}  // namespace gbcompress
