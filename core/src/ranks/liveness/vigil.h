#pragma once
/// Decides from heartbeats who has stopped and whom the others wait for. No sockets, no clock of
/// its own: the caller says what time it is.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/internal.h"
#include "gbcompress/ranks.h"

namespace GBC_INTERNAL gbcompress {

/// The rank that failed first, and why.
struct Failure {
  int rank = 0;
  std::string cause;  ///< a clause without full stop: "it was killed"
  bool operator==(const Failure&) const = default;
};

class Vigil {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param beat  the time between two heartbeats
  Vigil(std::chrono::milliseconds timeout, std::chrono::milliseconds beat, Clock::time_point now);

  /// From now on `rank` is expected to be heard of.
  void watch(int rank, Clock::time_point now);
  /// @param entered  how many collectives `rank` has entered so far
  /// @param last  the kind of the last one
  void beat(int rank, std::uint64_t entered, Collective last, Clock::time_point now);
  /// @param awaited  the rank that `rank` waits for in a transfer; -1: none
  /// @param number   of that wait, so that several in a row are not taken for one
  void wait(int rank, int awaited, std::uint64_t number, Clock::time_point now);
  /// To be called at least once a heartbeat. A gap between two calls means that this process itself
  /// was stopped, and counts as no failure.
  std::optional<Failure> check(Clock::time_point now);

 private:
  std::optional<Failure> missed_transfer(Clock::time_point now) const;

  struct Rank {
    Clock::time_point heard;
    std::uint64_t entered = 0;
    bool remote = false;  ///< watched, so that silence counts
    int awaited = -1;     ///< in a transfer
    std::uint64_t wait = 0;
    Clock::time_point waits_since;
  };
  struct Mark {
    std::uint64_t entered;
    Collective kind;
    Clock::time_point since;
  };

  std::chrono::milliseconds timeout_, beat_;
  Clock::time_point checked_;
  std::map<int, Rank> ranks_;
  std::deque<Mark> marks_;  ///< when the foremost rank reached which count
};

}  // namespace gbcompress
