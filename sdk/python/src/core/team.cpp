#include "team.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <thread>

#include "base/parallel.h"

namespace gbcompress::python {
namespace {

/// How long a thread polls before it sleeps. Waking one takes up to 50 microseconds; the calls of a
/// step follow one another within 20.
constexpr std::chrono::microseconds kPoll{100};

/// Waits until `value` differs from `old`.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + kPoll;
  while (value.load(std::memory_order_acquire) == old) {
    if (std::chrono::steady_clock::now() >= end) {
      value.wait(old, std::memory_order_acquire);
      return;
    }
    std::this_thread::yield();
  }
}

/// Never destroyed: its threads wait until the process ends.
class Team {
 public:
  /// Makes the threads that are missing. Called by one thread at a time.
  void run(int parts, const std::function<void(int)>& body) {
    body_ = &body;
    for (int part = static_cast<int>(members_.size()) + 1; part < parts; ++part) {
      Member& member = members_.emplace_back();
      member.part = part;
      try {
        std::thread([this, &member] { work(member); }).detach();
      } catch (...) {
        members_.pop_back();
        throw;
      }
    }
    for (int part = 1; part < parts; ++part) {
      Member& member = members_[static_cast<std::size_t>(part - 1)];
      member.calls.fetch_add(1, std::memory_order_release);
      member.calls.notify_one();
    }
    std::exception_ptr failure = attempt(0);
    for (int part = 1; part < parts; ++part) {
      Member& member = members_[static_cast<std::size_t>(part - 1)];
      // Every earlier call was waited for, so that one is left.
      wait_for_change(member.done, member.calls.load(std::memory_order_relaxed) - 1);
      if (!failure) failure = member.failure;
      member.failure = nullptr;
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  struct Member {
    int part = 0;
    std::atomic<std::uint32_t> calls = 0, done = 0;
    std::exception_ptr failure;
  };

  std::exception_ptr attempt(int part) const {
    try {
      (*body_)(part);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void work(Member& member) const {
    for (std::uint32_t seen = 0;; ++seen) {
      wait_for_change(member.calls, seen);
      member.failure = attempt(member.part);
      member.done.fetch_add(1, std::memory_order_release);
      member.done.notify_one();
    }
  }

  const std::function<void(int)>* body_ = nullptr;
  std::deque<Member> members_;  ///< their addresses stay
};

std::atomic_flag busy = ATOMIC_FLAG_INIT;
pid_t owner = 0;       ///< the process whose threads the team has
Team* team = nullptr;  ///< while `busy` is set, of the thread that set it

}  // namespace

void team_tasks(int parts, const std::function<void(int)>& body) {
  if (parts <= 1 || busy.test_and_set(std::memory_order_acquire)) {
    parallel_tasks(parts, parts, [&](std::int64_t part) { body(static_cast<int>(part)); });
    return;
  }
  struct Release {
    ~Release() { busy.clear(std::memory_order_release); }
  } release;
  if (owner != ::getpid()) {  // a fork copies no threads; the parent's team is left as it is
    team = new Team;
    owner = ::getpid();
  }
  team->run(parts, body);
}

}  // namespace gbcompress::python
