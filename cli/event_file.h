#pragma once
/// Event files that TensorBoard reads: numbers over steps, appended as they come.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

/// One event file. A record is its length, a checksum of that, an Event of TensorBoard's protocol
/// buffers, and a checksum of that: masked CRC-32C, both.
class EventFile {
 public:
  /// @throws Error(kIo) where folder or file cannot be made
  explicit EventFile(const std::filesystem::path& folder);
  /// @throws Error(kIo)
  void add(std::string_view tag, std::int64_t step, double value);
  void flush();

 private:
  void record(std::string_view event);
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::chrono::steady_clock::time_point flushed_;
};

/// A folder of runs, each a folder with an event file, as `tensorboard --logdir` takes it. After
/// the first file that cannot be written there is one message and nothing more is written: a run
/// does not end for it.
class EventLog {
 public:
  /// @throws Error(kIo) where the folder cannot be made or written
  explicit EventLog(std::filesystem::path folder);
  /// @param value  not written where it is not finite
  void add(const std::string& run, std::string_view tag, std::int64_t step, double value);

 private:
  std::filesystem::path folder_;
  std::map<std::string, EventFile> files_;
  bool broken_ = false;
};

/// The log of --tensorboard, or nothing. @throws as EventLog, as what writes does
std::unique_ptr<EventLog> event_log(const Arguments& arguments);
/// Of a file that is there: "bytes", "bits/NAME" of each tensor, and its metric where it has one.
void log_result(EventLog& log, const std::string& run, std::int64_t bytes,
                const std::vector<StoredTensor>& tensors, const std::string& metric = "",
                double value = 0);

/// CRC-32C (Castagnoli), reflected, of the whole.
std::uint32_t crc32c(std::string_view bytes) noexcept;

}  // namespace gbcompress::cli
