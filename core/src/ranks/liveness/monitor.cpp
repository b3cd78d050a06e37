#include "ranks/liveness/monitor.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

// How long the news of this rank's end may take to leave.
constexpr milliseconds kFarewell{300};

milliseconds beat_interval(milliseconds timeout) {
  return std::clamp(timeout / 10, milliseconds{20}, milliseconds{1000});
}

// The monitor that a process which exits early must still speak through.
constinit std::mutex live_mutex;
constinit Monitor* live = nullptr;
constinit pid_t live_process = 0;

void on_process_exit(int status, void*) {
  const std::lock_guard lock(live_mutex);
  // A forked child has no monitor thread that could speak.
  if (live && live_process == ::getpid())
    live->report("it exited before the work was done, with status " + std::to_string(status));
}

void set_live(Monitor* monitor) {
  static const int registered = ::on_exit(on_process_exit, nullptr);
  static_cast<void>(registered);
  const std::lock_guard lock(live_mutex);
  live = monitor;
  live_process = ::getpid();
}

}  // namespace

std::string failure_sentence(const Failure& failure, int own_rank) {
  if (failure.rank == own_rank) return "this rank is given up: " + failure.cause;
  return "rank " + std::to_string(failure.rank) + " failed first: " + failure.cause;
}

Monitor::Monitor(int rank, int world, milliseconds timeout, bool watch_launcher,
                 std::vector<Peer> peers)
    : rank_(rank),
      world_(world),
      timeout_(timeout),
      interval_(beat_interval(timeout)),
      peers_(std::move(peers)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      vigil_(timeout, interval_, Clock::now()),
      next_beat_(Clock::now()) {
  if (watch_launcher) launcher_.emplace();
  for (const Peer& peer : peers_) vigil_.watch(peer.rank, next_beat_);
  // Signals are for the main thread.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  set_live(this);
}

Monitor::~Monitor() {
  set_live(nullptr);
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    left = !all_done_ && !failure_;
  }
  if (left) report("it left before the work was done");
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_loop();
  thread_.join();
}

void Monitor::on_failure(std::function<void()> abort) {
  const std::lock_guard lock(abort_mutex_);
  abort_ = std::move(abort);
}

void Monitor::enter(Collective kind) noexcept {
  last_.store(kind, std::memory_order_relaxed);
  entered_.fetch_add(1, std::memory_order_release);
}

void Monitor::await(int rank) noexcept {
  if (rank >= 0) waits_.fetch_add(1, std::memory_order_relaxed);
  awaited_.store(rank, std::memory_order_release);
}

void Monitor::check() {
  if (!failed_.load(std::memory_order_acquire)) return;
  throw Error(Errc::kFailure, failure_sentence(*failure(), rank_));
}

std::optional<Failure> Monitor::failure(milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return failure_.has_value(); });
  if (failure_) let_unwind();
  return failure_;
}

void Monitor::let_unwind() {
  constexpr milliseconds kUnwind{3000};
  if (std::exchange(told_, true)) return;
  overdue_ = std::max(overdue_, Clock::now() + kUnwind);
}

void Monitor::report(std::string cause) noexcept {
  try {
    std::unique_lock lock(mutex_);
    if (failure_) let_unwind();
    if (failure_ || all_done_) return;
    report_ = std::move(cause);
    wake_loop();
    changed_.wait_for(lock, kFarewell, [&] { return !report_; });
  } catch (...) {  // no memory; the connection will tell when it closes
  }
}

void Monitor::finish() {
  std::unique_lock lock(mutex_);
  done_ = true;
  wake_loop();
  changed_.wait(lock, [&] { return failure_ || all_done_; });
  if (all_done_) return;
  lock.unlock();
  throw Error(Errc::kFailure, failure_sentence(*failure(), rank_));
}

void Monitor::wake_loop() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

}  // namespace gbcompress
