#pragma once
/// Processes of this machine: who we are, who started us, waking a stopped one.

#include <sys/types.h>

#include <string>

#include "base/internal.h"
#include "ranks/rendezvous/net.h"

namespace GBC_INTERNAL gbcompress {

/// A process, known across machines.
struct ProcessName {
  std::string host;     ///< boot id and process namespace: equal where a pid means the same process
  std::string machine;  ///< its name, for messages
  pid_t pid = 0;
};
ProcessName this_process();

/// Tells when the process that started this one ends. It watches the process and not, as
/// PR_SET_PDEATHSIG does, the thread that forked: a launcher may well fork from a short-lived
/// thread.
class LauncherWatch {
 public:
  LauncherWatch();
  /// Readable once it has ended; -1 where there is nothing to watch (started by init).
  int fd() const noexcept { return pidfd_.get(); }
  bool ended() const noexcept;

 private:
  pid_t parent_;
  net::Fd pidfd_;
};

/// Lets a stopped process of this machine run on, so that it hears what happened and ends.
void wake(const ProcessName& process) noexcept;

}  // namespace gbcompress
