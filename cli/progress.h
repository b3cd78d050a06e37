#pragma once
/// Progress on stderr: a bar on a terminal, plain lines elsewhere.

#include <chrono>
#include <string>

#include "gbcompress/train.h"

namespace gbcompress::cli {

/// On a terminal one line is redrawn ten times a second at most. Elsewhere a line appears when a
/// phase begins and ends, every tenth of it (a second apart at least), and after 10 s of silence.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay();  ///< clears the bar
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const Progress& progress);
  ProgressSink sink() {
    return [this](const Progress& progress) { show(progress); };
  }
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const Progress& progress, Clock::time_point now) const;

  bool quiet_, terminal_, colour_;
  bool drawn_ = false;
  std::string phase_;
  std::int64_t first_done_ = 0, last_done_ = -1, last_tenth_ = 0;
  Clock::time_point started_, last_shown_;
};

}  // namespace gbcompress::cli
