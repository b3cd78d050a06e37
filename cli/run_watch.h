#pragma once
/// The sinks of a run's progress: the display, the report page, and event files.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "event_file.h"
#include "progress.h"
#include "report.h"

namespace gbcompress::cli {

class RunWatch {
 public:
  /// @param log  may be null
  RunWatch(bool quiet, EventLog* log) : display_(quiet), log_(log) {}

  ProgressSink sink() {
    return [this](const Progress& progress) { see(progress); };
  }
  ProgressDisplay& display() { return display_; }
  /// Event files of what follows lie in a folder of this name: a point of a sweep.
  void begin(const std::string& part);
  /// Curves of every run and the results of each attempt.
  void tell(Report& page) const;
  /// [{"name", "run", "x", "y"}, ...]: each measure of each run, x the steps.
  nlohmann::ordered_json curves() const;

 private:
  void see(const Progress& progress);

  ProgressDisplay display_;
  EventLog* log_;
  std::map<std::pair<std::string, std::string>, Curve> curves_;  ///< by name and run
  nlohmann::ordered_json attempts_ = nlohmann::ordered_json::array();
  std::string part_;  ///< "" or "NAME/"
  std::string phase_;
  std::int64_t done_ = 0;
  std::map<std::string, std::int64_t> runs_;  ///< of each phase, so far
};

}  // namespace gbcompress::cli
