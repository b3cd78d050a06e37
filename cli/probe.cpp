#include "probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "torch_module.h"

extern char** environ;

namespace gbcompress::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr unsigned kSeconds = 60;
constexpr std::size_t kMaxAnswer = 1 << 20;
/// Begins the answer, whatever else the plugin prints.
const std::string kMark = "gbcompress-probe ";

struct Child {
  pid_t id = -1;
  int output = -1;
  ~Child() {
    if (output >= 0) ::close(output);
    if (id > 0) {
      ::kill(id, SIGKILL);
      ::waitpid(id, nullptr, 0);
    }
  }
};

void start(Child& child, const fs::path& file) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(Errc::kFailure, std::string("no pipe: ") + std::strerror(errno));
  child.output = ends[0];
  const std::string self = fs::read_symlink("/proc/self/exe");
  std::string words[] = {"gbcompress", "probe-plugin", fs::absolute(file)};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})  // what went wrong is told here, once
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], stream);
  const int failed = ::posix_spawn(&child.id, self.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed) {
    child.id = -1;
    throw Error(Errc::kFailure, std::string("cannot start a process: ") + std::strerror(failed));
  }
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  while (text.size() < kMaxAnswer) {
    throw_if_interrupted();
    // Bounded waits, so that a signal that comes between the check and the call is seen.
    pollfd wait{fd, POLLIN, 0};
    const int ready = ::poll(&wait, 1, 200);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw Error(Errc::kPluginRefused, "plugin " + printable(file.string()) + ": " + why);
}

}  // namespace

ProbeResult probe_plugin(const fs::path& file) {
  ProbeResult result;
  result.fingerprint = scan_plugin(file);
  Child child;
  start(child, file);
  const std::string answer = read_all(child.output);
  int status = 0;
  while (::waitpid(child.id, &status, 0) < 0 && errno == EINTR) {
  }
  child.id = -1;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    refuse(file, signal == SIGALRM
                     ? "loading it did not end within " + std::to_string(kSeconds) + " s"
                     : "loading it ended the process with signal " + std::to_string(signal) + " (" +
                           ::strsignal(signal) + ")");
  }
  const std::size_t at = answer.rfind(kMark);
  if (at == std::string::npos)
    refuse(file, "loading it ended the process with status " + std::to_string(WEXITSTATUS(status)));
  const json report = json::parse(answer.substr(at + kMark.size()), nullptr, false);
  if (!report.is_object()) refuse(file, "the process that loaded it ended without a result");
  if (report.contains("error"))
    throw Error(Errc::kPluginRefused, report.at("error").get<std::string>());
  result.types = report.at("types").get<std::vector<std::string>>();
  result.models = report.at("models").get<std::vector<std::string>>();
  result.strategies = report.at("strategies").get<std::vector<std::string>>();
  return result;
}

int probe_with_torch(const Arguments& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kSeconds);
  json report;
  try {
    PluginHost host;
    const LoadedPlugin& plugin = host.load(arguments.words()[0]);
    report = {
        {"types", plugin.gnet_types}, {"models", plugin.models}, {"strategies", plugin.strategies}};
  } catch (const std::exception& error) {
    report = {{"error", error.what()}};
  }
  std::cout << "\n" << kMark << report.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  return kDone;
}

}  // namespace gbcompress::cli
