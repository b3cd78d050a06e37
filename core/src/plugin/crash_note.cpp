// The line that names a plugin before a signal ends the process.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "plugin/plugin_call.h"

namespace gbcompress {
namespace {

// Read by the handler, where the first access to another kind of thread-local memory could
// allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local const PluginCall* current = nullptr;

struct Signal {
  int number;
  std::string_view name;
};
// Not SIGBUS: mapped inputs that become shorter raise it, and their own handler
// (base/mapped_inputs.cpp) repairs that.
constexpr std::array<Signal, 5> kSignals = {{{SIGSEGV, "SIGSEGV"},
                                             {SIGABRT, "SIGABRT"},
                                             {SIGILL, "SIGILL"},
                                             {SIGFPE, "SIGFPE"},
                                             {SIGTRAP, "SIGTRAP"}}};
std::array<struct sigaction, kSignals.size()> before;

/// [async-signal-safe] A line of bounded length.
class Line {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text)
      if (size_ < bytes_.size() - 1) bytes_[size_++] = c >= ' ' && c <= '~' ? c : '?';
  }
  void write() noexcept {
    bytes_[size_++] = '\n';
    for (std::size_t at = 0; at < size_;) {
      const ssize_t n = ::write(STDERR_FILENO, bytes_.data() + at, size_ - at);
      if (n <= 0) return;
      at += static_cast<std::size_t>(n);
    }
  }

 private:
  std::array<char, 2048> bytes_;
  std::size_t size_ = 0;
};

/// [async-signal-safe]
void write_note(const PluginCall& call, std::string_view how) noexcept {
  Line line;
  line.add("gbcompress: ");
  line.add(call.origin);
  for (const auto& [kind, name] :
       {std::pair(call.kind, call.id), std::pair(std::string_view("tensor"), call.tensor)}) {
    if (name.empty()) continue;
    line.add(", ");
    line.add(kind);
    line.add(" ");
    line.add(name);
  }
  line.add(": ");
  line.add(call.function);
  line.add(" ended the process with ");
  line.add(how);
  line.add("; this is a defect of the plugin");
  line.write();
}

void on_crash(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  std::size_t i = 0;
  while (i + 1 < kSignals.size() && kSignals[i].number != signal) ++i;
  if (const PluginCall* call = current) {
    current = nullptr;  // one line, whatever the other handlers do
    write_note(*call, kSignals[i].name);
  }
  errno = error;
  if (before[i].sa_flags & SA_SIGINFO) {
    before[i].sa_sigaction(signal, info, context);
  } else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN) {
    before[i].sa_handler(signal);
  } else {
    ::sigaction(signal, &before[i], nullptr);
    ::raise(signal);  // delivered when this handler returns
  }
}

/// A plugin that ends the program as if it were done leaves no file and must not look like success.
void on_exit() {
  if (!current) return;
  std::fflush(nullptr);
  write_note(*current, "exit()");
  ::_exit(EXIT_FAILURE);
}

/// Where the handler runs when the stack itself is full: a recursion without end is a common crash.
class AlternateStack {
 public:
  AlternateStack() noexcept {
    stack_t old{};
    if (::sigaltstack(nullptr, &old) != 0 || !(old.ss_flags & SS_DISABLE)) return;
    memory_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t mine{};
    mine.ss_sp = memory_;
    mine.ss_size = kBytes;
    ::sigaltstack(&mine, nullptr);
  }
  ~AlternateStack() {
    if (memory_ == MAP_FAILED) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    ::munmap(memory_, kBytes);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  void* memory_ = MAP_FAILED;
};

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_sigaction = on_crash;
      sigemptyset(&action.sa_mask);
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      ::sigaction(kSignals[i].number, &action, &before[i]);
    }
    std::atexit(on_exit);
  });
  static thread_local const AlternateStack stack;
}

}  // namespace

CrashNote::CrashNote(const PluginCall& call) noexcept : outer_(current) {
  install();
  current = &call;
}

CrashNote::~CrashNote() { current = outer_; }

}  // namespace gbcompress
