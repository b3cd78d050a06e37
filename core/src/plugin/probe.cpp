#include "plugin/probe.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "gbcompress/error.h"
#include "plugin/refuse.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxReason = 4096;
// Statuses of a child that came to its end; a plugin that exits by itself gives others, or lacks
// the word that goes before them.
constexpr int kGood = 0, kRefused = 1;
constexpr char kWord = '!';

/// Never returns to the caller's code: its destructors and atexit functions are the parent's.
[[noreturn]] void child(int answer, const std::function<void()>& load) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A handler of the program would run here too, and mistake this process for the program.
  for (const int signal :
       {SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGTERM, SIGINT})
    ::signal(signal, SIG_DFL);
  ::alarm(kProbeSeconds);
  std::string reason(1, kWord);
  int status = kRefused;
  try {
    load();
    status = kGood;
  } catch (const std::exception& error) {
    reason += error.what();
  } catch (...) {
    reason += "threw something that is not a std::exception";
  }
  reason.resize(std::min(reason.size(), kMaxReason));
  const ssize_t written = ::write(answer, reason.data(), reason.size());
  ::_exit(written == static_cast<ssize_t>(reason.size()) ? status : kRefused);
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 512> buffer;
  while (text.size() <= kMaxReason) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

void probe_in_child(const std::filesystem::path& file, const std::function<void()>& load) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(Errc::kFailure, std::string("no pipe to try a plugin: ") + std::strerror(errno));
  const pid_t id = ::fork();
  if (id == 0) {
    ::close(ends[0]);
    child(ends[1], load);
  }
  const int error = errno;
  ::close(ends[1]);
  const std::string answer = id > 0 ? read_all(ends[0]) : "";
  ::close(ends[0]);
  if (id < 0)
    throw Error(Errc::kFailure, std::string("no process to try a plugin: ") + std::strerror(error));
  int status = 0;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    refuse_plugin(file, signal == SIGALRM
                            ? "did not load within " + std::to_string(kProbeSeconds) + " s"
                            : "ended the process that tried it with signal " +
                                  std::to_string(signal) + " (" + ::strsignal(signal) +
                                  "); it is damaged, or faulty");
  }
  if (answer.empty() || answer[0] != kWord)
    refuse_plugin(file, "ended the process that tried it with status " +
                            std::to_string(WEXITSTATUS(status)) + "; it is damaged, or faulty");
  if (WEXITSTATUS(status) != kGood) throw Error(Errc::kPluginRefused, answer.substr(1));
}

}  // namespace gbcompress
