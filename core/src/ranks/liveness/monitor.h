#pragma once
/// Keeps ranks failing together. One thread a rank holds a connection to rank 0 (rank 0: to
/// everybody), sends heartbeats over it and reads what comes:
///
///  - the kernel closes the connection of a process that dies, at once: a killed rank is noticed
///    within milliseconds, whatever the main threads compute or wait for;
///  - a stopped process keeps its connections but falls silent: it is noticed after the timeout;
///  - a rank that fails says so, with its cause, before it ends.
///
/// Rank 0 decides which failure was the first and tells everybody; when rank 0 itself is lost,
/// every rank notices for itself. Then the blocked collective is aborted, so that the main thread
/// ends by an exception; a main thread that does not come (it computes, or sits in a call that
/// nothing can interrupt) is not waited for: the monitor prints the sentence and ends the process.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/internal.h"
#include "gbcompress/ranks.h"
#include "ranks/launch/process.h"
#include "ranks/liveness/vigil.h"
#include "ranks/rendezvous/channel.h"

namespace GBC_INTERNAL gbcompress {

struct Peer {
  int rank = 0;
  ProcessName process;
  std::unique_ptr<Channel> channel;
};

/// Exit status of a process that the monitor ends.
inline constexpr int kFailedTogether = 1;

/// "rank 2 failed first: ITS CAUSE", or what to say where it is this rank itself.
std::string failure_sentence(const Failure& failure, int own_rank);

class Monitor {
 public:
  /// @param peers  for rank 0 all others, for the others rank 0 alone
  /// @param watch_launcher  end when the process that started this one ends
  Monitor(int rank, int world, std::chrono::milliseconds timeout, bool watch_launcher,
          std::vector<Peer> peers);
  /// Tells the others, where finish() has not been reached, that this rank left.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Called once on the monitor's thread, when a failure becomes known. Set while no collective
  /// runs; when this returns, the previous one is not running and will not be called.
  void on_failure(std::function<void()> abort);

  /// This rank enters its next collective. [thread-safe]
  void enter(Collective kind) noexcept;
  /// This rank waits for another in a transfer; -1: no longer. [thread-safe]
  void await(int rank) noexcept;
  /// @throws Error(kFailure) naming the first failed rank, where there is one
  void check();
  /// The first failure, after waiting for up to `patience` for the news of it. Whoever asks is
  /// expected to end the process soon.
  std::optional<Failure> failure(std::chrono::milliseconds patience = {});
  /// This rank fails: tells the others, and returns when they have been told. Nothing is done where
  /// something failed before. [thread-safe]
  void report(std::string cause) noexcept;
  /// Returns when every rank is here. There is no time limit as long as all run.
  /// @throws Error(kFailure)
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  /// The main thread is on its way out and needs no end from here. mutex_ is held.
  void let_unwind();
  void run();
  void poll_once();
  void obey();  ///< the requests of the main thread
  void beat(Clock::time_point now);
  void read(Peer& peer);
  void handle(Peer& peer, const Message& message);
  /// @param own  found out by this rank, so that others must be told
  /// @param grace  how long the main thread may take to end by itself
  void declare(Failure failure, bool own, std::chrono::milliseconds grace);
  void count_done();
  void tell(MessageKind kind, std::string_view body);
  void wake_loop() noexcept;
  void end_if_overdue(Clock::time_point now);
  bool flushed() const;

  const int rank_, world_;
  const std::chrono::milliseconds timeout_, interval_;
  std::vector<Peer> peers_;
  std::optional<LauncherWatch> launcher_;
  net::Fd wake_;
  std::atomic<std::uint64_t> entered_{0};
  std::atomic<Collective> last_{Collective::kBarrier};
  std::atomic<int> awaited_{-1};
  std::atomic<std::uint32_t> waits_{0};
  std::atomic<bool> failed_{false};

  // Shared with the main thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::optional<std::string> report_;
  bool done_ = false, all_done_ = false, stop_ = false, told_ = false;
  Clock::time_point overdue_ = Clock::time_point::max();

  std::mutex abort_mutex_;  ///< held while abort_ runs; never together with mutex_
  std::function<void()> abort_;

  // The monitor's thread only.
  Vigil vigil_;
  Clock::time_point next_beat_, stop_by_ = Clock::time_point::max();
  int done_count_ = 0;
  bool done_told_ = false;
  std::thread thread_;
};

}  // namespace gbcompress
