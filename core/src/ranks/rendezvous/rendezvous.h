#pragma once
/// How ranks find each other: a key-value store tells the others where rank 0 is, then everybody
/// connects to it and says who it is.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/internal.h"
#include "ranks/liveness/monitor.h"
#include "ranks/rendezvous/net.h"

namespace GBC_INTERNAL gbcompress {

class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Never waits for a key.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  /// @return the sum so far, this addend included
  virtual std::int64_t add(const std::string& key, std::int64_t addend) = 0;
};

struct MeetOptions {
  int rank = 0, world = 1;
  net::Listening listening;  ///< of rank 0's control socket
  std::string prefix;        ///< in front of every key
  net::Clock::time_point deadline;
  std::function<void()> between;  ///< called while waiting; throws to give up
};

/// @return for rank 0 all others, by rank; for the others rank 0
/// @throws Error(kFailure): two processes with one rank, ranks with different worlds,
///         ranks that did not come before the deadline (named), a rank that left meanwhile. Every
///         rank that came throws the same; rank 0 waits for that, for at most a second
std::vector<Peer> meet(KeyStore& store, const MeetOptions& options);

}  // namespace gbcompress
