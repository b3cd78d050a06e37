#include "checkpoint/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "gbcompress/checkpoint.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kStepDigits = 12;
constexpr std::size_t kStepName = kStepPrefix.size() + kStepDigits;

std::string padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

}  // namespace

std::string step_name(std::int64_t step) {
  return std::string(kStepPrefix) + padded(step, kStepDigits);
}

std::string shard_name(int rank) { return "rank-" + padded(rank, 5) + ".shard"; }

std::optional<std::int64_t> parse_step_name(std::string_view name) noexcept {
  if (name.size() != kStepName || !name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  for (char c : name.substr(kStepPrefix.size())) {
    if (c < '0' || c > '9') return std::nullopt;
    step = 10 * step + (c - '0');
  }
  return step;
}

bool is_temporary_name(std::string_view name) noexcept {
  return name.size() > kStepName && parse_step_name(name.substr(0, kStepName)) &&
         name.substr(kStepName).starts_with(".tmp-");
}

FileHandle lock_folder(const fs::path& folder, const std::string& run) {
  const fs::path path = folder / kLockName;
  FileHandle file(repeated([&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  }));
  if (file.get() < 0) fail_io(path, "cannot be opened", errno);
  if (!lock_file(file, path))
    throw Error(Errc::kExists, "another run saves its checkpoints in " +
                                   printable(folder.string()) + " (`fuser " +
                                   printable(path.string()) +
                                   "` names it); wait for its end or choose another "
                                   "folder");
  if (repeated([&] { return ::ftruncate(file.get(), 0); }) != 0)
    fail_io(path, "cannot be written", errno);
  write_all(file, std::as_bytes(std::span(run)), path);
  // Other machines see it after this.
  if (repeated([&] { return ::fsync(file.get()); }) != 0) fail_io(path, "cannot be flushed", errno);
  return file;
}

void check_same_folder(const fs::path& folder, const std::string& run, int rank) {
  const fs::path path = folder / kLockName;
  std::string seen;
  try {
    const FileHandle file = open_file(path);
    const std::int64_t bytes = file_bytes(file, path);
    if (bytes == static_cast<std::int64_t>(run.size())) {
      seen.resize(run.size());
      read_all(file, 0, std::as_writable_bytes(std::span(seen)), path);
    }
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) throw;
  }
  if (seen != run)
    throw Error(Errc::kFailure, "rank " + std::to_string(rank) + " sees another folder " +
                                    printable(folder.string()) +
                                    " than rank 0; checkpoints need a folder on a file system that "
                                    "all ranks share");
}

bool is_being_written(const fs::path& temporary) {
  std::vector<std::string> names;
  try {
    names = list_names(temporary);
  } catch (const Error&) {
    return false;  // no folder, or one that cannot be removed either
  }
  for (const std::string& name : names) {
    const fs::path path = temporary / name;
    const FileHandle file(repeated([&] {
      return ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    }));
    if (file.get() >= 0 && !lock_file(file, path)) return true;
  }
  return false;
}

std::vector<std::int64_t> list_checkpoints(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  try {
    for (const std::string& name : list_names(folder))
      if (const auto step = parse_step_name(name)) steps.push_back(*step);
  } catch (const Error& error) {
    if (error.code() != Errc::kNotFound) throw;
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace gbcompress
