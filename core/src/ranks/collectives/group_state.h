#pragma once
/// What a Group and the collectives under way share.

#include <chrono>
#include <exception>
#include <functional>
#include <optional>

#include "gbcompress/ranks.h"
#include "ranks/backends/nccl_place.h"
#include "ranks/backends/tcp_store.h"
#include "ranks/collectives/transport.h"
#include "ranks/liveness/monitor.h"

namespace gbcompress {

/// A broken connection is noticed where data travel and by the monitor; its news takes a moment to
/// go round.
inline constexpr std::chrono::milliseconds kFailureNews{1000};

struct GroupState {
  int rank = 0, world = 1;
  Traffic traffic;
  bool finished = false;
  std::string prefix;  ///< of this start's keys in the store
  // Taken down from below: the transport while the monitor still watches.
  std::unique_ptr<TcpKeyStore> store;
  std::unique_ptr<Monitor> monitor;
  std::unique_ptr<Transport> transport;

  GroupState() = default;
  ~GroupState() {
    if (monitor) monitor->on_failure({});
  }
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  /// To be called in front of every collective. @throws Error(kFailure) after a failure
  void begin(Collective kind, std::int64_t bytes);
  /// Hands a collective to the transport, which may find a connection closed already.
  /// @throws as explain()
  TransportWorkPtr start(Collective kind, const std::function<TransportWorkPtr()>& begin,
                         int peer = -1);
  /// A collective ended by an exception: says which rank failed first, or that this one did.
  /// @param peer  of a transfer; -1: none
  [[noreturn]] void explain(Collective kind, const std::exception& error, int peer = -1);
};

struct Pending::Impl {
  std::shared_ptr<GroupState> state;
  Collective kind;
  int peer = -1;  ///< the other rank of a transfer
  std::vector<TransportWorkPtr> works;
  std::function<void()> complete;  ///< what is left to do with what arrived

  void start(const std::function<TransportWorkPtr()>& begin) {
    works.push_back(state->start(kind, begin, peer));
  }
};

/// Meets the other ranks. @param nccl  none: Gloo. @throws as Group::open()
std::shared_ptr<GroupState> open_state(const Launch& launch, const GroupOptions& options,
                                       const std::optional<NcclPlace>& nccl);

}  // namespace gbcompress
