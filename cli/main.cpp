#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "outcome.h"
#include "standard_streams.h"

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

bool given(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
}

/// Before anything is parsed, so that no error is printed among the bytes of a file.
bool asks_for_a_stream(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i)
    if ((arguments[i] == "-o" || arguments[i] == "--output") && arguments[i + 1] == "-")
      return true;
  return given(arguments, "-o-") || given(arguments, "--output=-");
}

/// `-o /dev/stdout` is `-o -`: a file's bytes go there, and what is printed elsewhere.
std::vector<std::string> with_dashes(std::vector<std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool named = i > 0 && (arguments[i - 1] == "-o" || arguments[i - 1] == "--output");
    for (const std::string name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
      if (named && arguments[i] == name) arguments[i] = "-";
      if (arguments[i] == "-o" + name) arguments[i] = "-o-";
      if (arguments[i] == "--output=" + name) arguments[i] = "--output=-";
    }
  }
  return arguments;
}

int run(const std::string& program, const std::vector<std::string>& given_arguments) {
  const std::vector<std::string> arguments = with_dashes(given_arguments);
  if (asks_for_a_stream(arguments)) results_to_standard_error();
  return told(given(arguments, "--json"), [&] { return dispatch(program, arguments); });
}

}  // namespace
}  // namespace gbcompress::cli

int main(int argc, char** argv) {
  using namespace gbcompress::cli;
  install_handlers();
  const int status = run(argc > 0 ? argv[0] : "gbcompress", {argv + (argc > 0), argv + argc});
  // A reader that had enough, as `head` has, needs no message.
  if (!std::cout.flush() && !standard_output_is_closed()) {
    say("the results could not be written to standard output");
    return status == 0 ? static_cast<int>(kFailed) : status;
  }
  // The others are waiting for this one's processor.
  if (status != 0 && !gbcompress::rank_prefix().empty()) gbcompress::end_rank(status);
  return status;
}
