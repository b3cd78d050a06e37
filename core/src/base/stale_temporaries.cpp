#include "base/stale_temporaries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kInfix = ".tmp-";
constexpr time_t kYoung = 10;  // seconds

bool try_lock(int fd) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/// A number as std::to_string() writes it.
std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text)
    return std::nullopt;
  return value;
}

/// The process that `name` is of, where it is "`target`.tmp-PROCESS-NUMBER".
std::optional<pid_t> writer_of(std::string_view name, std::string_view target) {
  if (!name.starts_with(target) || !name.substr(target.size()).starts_with(kInfix))
    return std::nullopt;
  const std::string_view rest = name.substr(target.size() + kInfix.size());
  const std::size_t dash = rest.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto process = whole(rest.substr(0, dash)), number = whole(rest.substr(dash + 1));
  if (!process || !number || *process <= 0 || *number < 0) return std::nullopt;
  return *process;
}

/// Whether a file of that time may be one that its writer has not locked yet.
bool young(const struct stat& status, const struct stat& own) {
  return status.st_mtime + kYoung > own.st_mtime && status.st_mtime <= own.st_mtime + kYoung;
}

/// @param own  null: of any age
void remove_if_stale(const fs::path& path, const struct stat* own) noexcept {
  const int fd = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status {
  }, named{};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
      !(own && young(status, *own)) && try_lock(fd) && ::lstat(path.c_str(), &named) == 0 &&
      named.st_ino == status.st_ino && named.st_dev == status.st_dev)
    ::unlink(path.c_str());
  ::close(fd);
}

void remove_left_of(const fs::path& path, const struct stat* own) noexcept {
  try {
    const std::string target = path.filename().string();
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (const std::string& name : names_in(folder)) {
      const auto process = writer_of(name, target);
      if (process && ::kill(*process, 0) != 0 && errno == ESRCH)
        remove_if_stale(folder / name, own);
    }
  } catch (const std::exception&) {  // no memory for a name: the files stay
  }
}

}  // namespace

void lock_temporary(int fd) noexcept { try_lock(fd); }

void remove_stale_temporaries(const fs::path& path, int own) noexcept {
  struct stat made {};
  if (::fstat(own, &made) == 0) remove_left_of(path, &made);
}

void remove_temporaries_of_killed(const fs::path& path) noexcept { remove_left_of(path, nullptr); }

}  // namespace gbcompress
