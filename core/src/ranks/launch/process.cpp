#include "ranks/launch/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace gbcompress {

ProcessName this_process() {
  ProcessName result;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 256> text{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", text.data(), text.size() - 1);
  // Without both, a pid of another machine could pass for one of ours; then no process gets a
  // signal.
  if (!boot.empty() && length > 0) result.host = boot + " " + text.data();
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) result.machine = name.data();
  result.pid = ::getpid();
  return result;
}

LauncherWatch::LauncherWatch() : parent_(::getppid()) {
  if (parent_ <= 1) return;
  pidfd_ = net::Fd(static_cast<int>(::syscall(SYS_pidfd_open, parent_, 0)));
  // It may have ended in between; its number may by now be another's.
  if (::getppid() != parent_) parent_ = -1;
}

bool LauncherWatch::ended() const noexcept {
  if (parent_ == 0 || parent_ == 1) return false;
  if (parent_ < 0 || ::getppid() != parent_) return true;
  if (!pidfd_) return false;
  pollfd one{pidfd_.get(), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

void wake(const ProcessName& process) noexcept {
  static const ProcessName self = this_process();
  if (process.pid > 1 && !process.host.empty() && process.host == self.host)
    ::kill(process.pid, SIGCONT);
}

}  // namespace gbcompress
