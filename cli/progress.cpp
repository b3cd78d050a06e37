#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "table.h"

namespace gbcompress::cli {
namespace {

constexpr std::int64_t kBarWidth = 24;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// https://no-color.org and https://bixense.com/clicolors: NO_COLOR wins, then CLICOLOR_FORCE, then
/// CLICOLOR=0 on a terminal.
bool wants_colour(bool terminal) {
  if (!environment("NO_COLOR").empty()) return false;
  const std::string force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return terminal && environment("CLICOLOR") != "0";
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long long>(std::min(seconds, 3.6e8) + 0.5);
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool quiet)
    : quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) != 0 && environment("TERM") != "dumb"),
      colour_(wants_colour(terminal_)) {}

ProgressDisplay::~ProgressDisplay() { clear(); }

void ProgressDisplay::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

std::string ProgressDisplay::line(const Progress& progress, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const double steps = static_cast<double>(progress.done - first_done_);
  std::string text = with_commas(progress.done) + "/" + with_commas(progress.total);
  if (steps > 0 && seconds > 0) {
    const double rate = steps / seconds;
    text += "  " + fixed(rate, rate < 10 ? 2 : 0) + "/s";
    if (progress.done < progress.total)
      text +=
          "  " + clock_text(static_cast<double>(progress.total - progress.done) / rate) + " left";
  }
  if (std::isfinite(progress.loss)) {
    char loss[32];
    std::snprintf(loss, sizeof loss, "  loss %.4g", progress.loss);
    text += loss;
  }
  return text;
}

void ProgressDisplay::show(const Progress& progress) {
  // What an attempt gave is a message of its own (CompressOptions::tell).
  if (quiet_ || progress.total <= 0 || progress.phase == "attempt") return;
  const auto now = Clock::now();
  // A phase of the same name that starts over is a new one.
  const bool begins = progress.phase != phase_ || progress.done < last_done_;
  last_done_ = progress.done;
  const bool ends = progress.done >= progress.total;
  if (begins) {
    phase_ = progress.phase;
    first_done_ = progress.done;
    started_ = now;
    last_tenth_ = 0;
  }
  const std::int64_t tenth = progress.done * 10 / progress.total;
  const double silence = std::chrono::duration<double>(now - last_shown_).count();
  const bool due =
      terminal_ ? silence >= 0.1 : silence >= 10 || (tenth > last_tenth_ && silence >= 1);
  if (!begins && !ends && !due) return;
  last_tenth_ = tenth;
  last_shown_ = now;

  const std::int64_t percent = std::min<std::int64_t>(100, progress.done * 100 / progress.total);
  const std::string numbers = line(progress, now);
  char head[64];
  std::snprintf(head, sizeof head, "%-8.8s %3lld %%  ", phase_.c_str(),
                static_cast<long long>(percent));
  if (!terminal_) {
    std::fprintf(stderr, "%s%s\n", head, numbers.c_str());
    std::fflush(stderr);
    return;
  }
  const auto filled = static_cast<std::size_t>(percent * kBarWidth / 100);
  const std::string bar =
      std::string(filled, '#') + std::string(static_cast<std::size_t>(kBarWidth) - filled, '.');
  const std::string plain = std::string(head) + "[" + bar + "]  " + numbers;
  // A line that wraps could not be redrawn in place.
  const bool fits = plain.size() < terminal_columns();
  const std::string shown = fits ? std::string(head) + "[" + (colour_ ? "\x1b[32m" : "") + bar +
                                       (colour_ ? "\x1b[0m" : "") + "]  " + numbers
                                 : plain.substr(0, terminal_columns() - 1);
  std::fprintf(stderr, "\r\x1b[K%s", shown.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace gbcompress::cli
