#include "ranks/liveness/vigil.h"

#include <algorithm>

#include "ranks/liveness/seconds.h"

namespace gbcompress {
namespace {
// A busy machine may keep a thread waiting for a few beats; a stopped process stays away for more.
constexpr int kBeatsOfGap = 4;
}  // namespace

Vigil::Vigil(std::chrono::milliseconds timeout, std::chrono::milliseconds beat,
             Clock::time_point now)
    : timeout_(timeout), beat_(beat), checked_(now) {}

void Vigil::watch(int rank, Clock::time_point now) {
  ranks_[rank].heard = now;
  ranks_[rank].remote = true;
}

void Vigil::beat(int rank, std::uint64_t entered, Collective last, Clock::time_point now) {
  Rank& one = ranks_[rank];
  one.heard = now;
  one.entered = std::max(one.entered, entered);
  const std::uint64_t foremost = marks_.empty() ? 0 : marks_.back().entered;
  if (entered > foremost) marks_.push_back({entered, last, now});
  std::uint64_t hindmost = one.entered;
  for (const auto& [_, other] : ranks_) hindmost = std::min(hindmost, other.entered);
  while (marks_.size() > 1 && marks_.front().entered <= hindmost) marks_.pop_front();
}

void Vigil::wait(int rank, int awaited, std::uint64_t number, Clock::time_point now) {
  Rank& one = ranks_[rank];
  if (one.awaited != awaited || one.wait != number) one.waits_since = now;
  one.awaited = awaited;
  one.wait = number;
}

/// The rank at the end of a chain of ranks that wait for each other.
std::optional<Failure> Vigil::missed_transfer(Clock::time_point now) const {
  for (const auto& [number, rank] : ranks_) {
    if (rank.awaited < 0 || now - rank.waits_since <= timeout_) continue;
    int waiting = number, awaited = rank.awaited;
    for (std::size_t links = 0; links < ranks_.size(); ++links) {
      const auto next = ranks_.find(awaited);
      if (next == ranks_.end() || next->second.awaited < 0) break;
      waiting = awaited;
      awaited = next->second.awaited;
    }
    return Failure{awaited, "it has not taken part in a transfer for which rank " +
                                std::to_string(waiting) + " has waited for " +
                                seconds_text(timeout_)};
  }
  return std::nullopt;
}

std::optional<Failure> Vigil::check(Clock::time_point now) {
  const auto gap = now - checked_;
  checked_ = now;
  if (gap > kBeatsOfGap * beat_) {
    for (auto& [_, rank] : ranks_) {
      rank.heard += gap;
      rank.waits_since += gap;
    }
    for (Mark& mark : marks_) mark.since += gap;
  }
  // The one that has been silent for longest is the likeliest culprit.
  const Rank* silent = nullptr;
  int silent_rank = 0;
  for (const auto& [number, rank] : ranks_)
    if (rank.remote && now - rank.heard > timeout_ && (!silent || rank.heard < silent->heard)) {
      silent = &rank;
      silent_rank = number;
    }
  if (silent)
    return Failure{silent_rank, "it has not been heard of for " + seconds_text(timeout_) +
                                    ": its process is stopped, or its machine or the network is "
                                    "down"};
  if (const auto missed = missed_transfer(now)) return missed;
  for (const auto& [number, rank] : ranks_) {
    if (rank.awaited >= 0) continue;  // late because of another rank
    // Silence explains why a rank is late; it will be told in a moment.
    if (rank.remote && now - rank.heard > kBeatsOfGap * beat_) continue;
    for (const Mark& mark : marks_) {
      if (mark.entered <= rank.entered) continue;
      if (now - mark.since > timeout_)
        return Failure{number, "it has entered " + std::to_string(rank.entered) +
                                   " collectives while others have waited for it for " +
                                   seconds_text(timeout_) + ", since number " +
                                   std::to_string(mark.entered) + " (" +
                                   std::string(collective_name(mark.kind)) + ")"};
      break;
    }
  }
  return std::nullopt;
}

}  // namespace gbcompress
