#include "event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "exit_status.h"
#include "gbcompress/error.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;

/// What is in memory reaches the file after this, so that a viewer sees it.
constexpr std::chrono::seconds kFlush{2};

[[noreturn]] void fail(const fs::path& path) {
  throw Error(Errc::kIo, printable(path.string()) + " cannot be written: " + std::strerror(errno));
}

/// Little-endian, on any machine.
template <typename Number>
std::string bytes_of(Number value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

// Protocol buffers: a field is its number and wire type, then its value.
enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string key(std::uint32_t field, Wire wire) { return varint(field << 3 | wire); }
std::string text_field(std::uint32_t field, std::string_view text) {
  return key(field, kBytes) + varint(text.size()) + std::string(text);
}

/// Event.wall_time, seconds since 1970.
std::string now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return key(1, kFixed64) +
         bytes_of(std::bit_cast<std::uint64_t>(std::chrono::duration<double>(since).count()));
}

/// TensorFlow rotates checksums and adds a constant, because checksums of checksums are weak.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = entries[i] >> 1 ^ ((entries[i] & 1) ? 0x82f63b78U : 0U);
    }
    return entries;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be made: " + failed.message());
  // Files of one folder are read in the order of their names: the second of the start comes first.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  path_ = folder / ("events.out.tfevents." + std::to_string(seconds.count()) + ".gbcompress." +
                    std::to_string(::getpid()));
  file_.reset(std::fopen(path_.c_str(), "wb"));
  if (!file_) fail(path_);
  record(now() + text_field(3, "brain.Event:2"));
  flush();
}

void EventFile::record(std::string_view event) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(event.size()));
  const std::string whole = length + bytes_of(masked(crc32c(length))) + std::string(event) +
                            bytes_of(masked(crc32c(event)));
  if (std::fwrite(whole.data(), 1, whole.size(), file_.get()) != whole.size()) fail(path_);
}

void EventFile::add(std::string_view tag, std::int64_t step, double value) {
  const std::string number =
      key(2, kFixed32) + bytes_of(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  const std::string summary = text_field(1, text_field(1, tag) + number);
  record(now() + key(2, kVarint) + varint(static_cast<std::uint64_t>(step)) +
         text_field(5, summary));
  if (std::chrono::steady_clock::now() - flushed_ > kFlush) flush();
}

void EventFile::flush() {
  if (std::fflush(file_.get()) != 0) fail(path_);
  flushed_ = std::chrono::steady_clock::now();
}

EventLog::EventLog(fs::path folder) : folder_(std::move(folder)) {
  if (folder_.empty()) throw Error(Errc::kUsage, "--tensorboard needs the name of a folder");
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed || !fs::is_directory(folder_))
    throw Error(Errc::kIo, printable(folder_.string()) + " cannot be made: " +
                               (failed ? failed.message() : std::string("it is a file")));
  if (::access(folder_.c_str(), W_OK | X_OK) != 0) fail(folder_);
}

void EventLog::add(const std::string& run, std::string_view tag, std::int64_t step, double value) {
  if (broken_ || !std::isfinite(value)) return;
  try {
    auto file = files_.find(run);
    if (file == files_.end()) file = files_.emplace(run, EventFile(folder_ / run)).first;
    file->second.add(tag, step, value);
  } catch (const Error& error) {
    broken_ = true;
    say(std::string("warning: writing for TensorBoard stops: ") + error.what());
  }
}

std::unique_ptr<EventLog> event_log(const Arguments& arguments) {
  if (!arguments.has("tensorboard")) return nullptr;
  return writing([&] { return std::make_unique<EventLog>(arguments.text("tensorboard")); });
}

void log_result(EventLog& log, const std::string& run, std::int64_t bytes,
                const std::vector<StoredTensor>& tensors, const std::string& metric, double value) {
  log.add(run, "bytes", 0, static_cast<double>(bytes));
  if (!metric.empty()) log.add(run, metric, 0, value);
  for (const StoredTensor& tensor : tensors) log.add(run, "bits/" + tensor.name, 0, tensor.bits());
}

}  // namespace gbcompress::cli
