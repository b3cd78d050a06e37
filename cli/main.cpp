#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>
#include <new>

#include "command.h"
#include "exit_status.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {
namespace {

/// The first signal asks to stop between two steps, the second ends the process at once.
void on_signal(int signal) {
  if (interrupt_requested()) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  request_interrupt(signal);
}

void install_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction old {};
    // Whoever started us with SIGINT ignored (nohup, a background job) means it.
    if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
  std::signal(SIGUSR1, [](int) { request_checkpoint(); });
  // Both become errors of write(), which are reported like any other.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int report(bool json, Errc code, const std::string& text, int status) {
  const std::string message = with_flags(text);
  say(message);
  write_error_file(message);  // torchrun shows it, where it started us
  if (json)
    print_json({{"error", {{"code", errc_name(code)}, {"message", message}, {"status", status}}}});
  return status;
}

/// An input that became shorter meanwhile explains whatever else went wrong, so it is told instead.
int dispatch_watched(const std::vector<std::string>& arguments) {
  int status = kDone;
  try {
    status = dispatch(arguments);
  } catch (const std::exception&) {
    check_mapped_inputs();
    throw;
  }
  check_mapped_inputs();
  return status;
}

int run(const std::vector<std::string>& arguments) {
  bool json = false;
  for (const std::string& argument : arguments) json = json || argument == "--json";
  try {
    return dispatch_watched(arguments);
  } catch (const Error& error) {
    const bool writing = dynamic_cast<const WriteError*>(&error) != nullptr;
    return report(json, error.code(), error.what(),
                  exit_status(error.code(), writing, interrupt_requested()));
  } catch (const std::bad_alloc&) {
    return report(json, Errc::kFailure, "there is not enough memory for this", kFailed);
  } catch (const std::exception& error) {
    return report(json, Errc::kFailure, "failed: " + printable(first_line(error.what())), kFailed);
  }
}

}  // namespace
}  // namespace gbcompress::cli

int main(int argc, char** argv) {
  using namespace gbcompress::cli;
  install_handlers();
  const int status = run({argv + 1, argv + argc});
  errno = 0;
  if (!std::cout.flush()) {
    // A reader that had enough, as `head` has, needs no message.
    if (errno != EPIPE) say("the results could not be written to standard output");
    return status == 0 ? static_cast<int>(kFailed) : status;
  }
  // The others are waiting for this one's processor.
  if (status != 0 && !gbcompress::rank_prefix().empty()) gbcompress::end_rank(status);
  return status;
}
