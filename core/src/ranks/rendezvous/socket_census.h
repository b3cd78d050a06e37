#pragma once
/// Remembers which sockets a piece of foreign code opened, so that they can be shut down.
///
/// Gloo cannot be told to give up a collective, but ends it with an error as soon as a connection
/// breaks. Shutting the connections down is therefore how a blocked collective is aborted.

#include <sys/types.h>

#include <map>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

class SocketCensus {
 public:
  SocketCensus();  ///< counts what is there before
  /// Counts again: whatever came since then is what shut_down() means.
  void close_books();
  /// Wakes whoever waits for these sockets. Descriptors stay open, those that meanwhile belong to
  /// something else are left alone. [thread-safe after close_books()]
  void shut_down() const noexcept;

 private:
  std::map<int, ino_t> before_, opened_;
};

}  // namespace gbcompress
