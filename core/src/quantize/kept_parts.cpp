#include "quantize/kept_parts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/digest.h"

namespace gbcompress {
namespace {

/// Before each part: key and section follow. `hash` is that of what is behind it and of the key.
struct Record {
  std::uint64_t hash;
  std::uint64_t section_size, section_hash;
  double error;
  std::int32_t step;
  std::uint32_t key_size;
  std::uint64_t row_steps;
};
static_assert(sizeof(Record) == 48);

std::uint64_t hash_of(const Record& record, std::span<const std::byte> key) {
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(&record, 1)).subspan(sizeof record.hash));
  hash.update(key);
  return hash.value();
}

bool read_all(int fd, std::span<std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return true;
}

bool write_all(int fd, std::span<const std::byte> bytes, std::int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
  return true;
}

}  // namespace

KeptParts::KeptParts(std::filesystem::path file) : file_(std::move(file)) {
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd_ < 0) return;
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(fd_, -1));
    return;
  }
  scan();
}

KeptParts::~KeptParts() {
  if (fd_ < 0) return;
  if (!leave_) ::unlink(file_.c_str());
  ::close(fd_);
}

void KeptParts::scan() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string key;
  for (std::uint64_t at = 0; size - at >= sizeof(Record);) {
    Record record;
    if (!read_all(fd_, std::as_writable_bytes(std::span(&record, 1)),
                  static_cast<std::int64_t>(at)))
      break;
    at += sizeof record;
    if (record.key_size > kMostKey || record.key_size > size - at ||
        record.section_size > size - at - record.key_size)
      break;
    key.resize(record.key_size);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(key));
    if (!read_all(fd_, bytes, static_cast<std::int64_t>(at)) ||
        hash_of(record, bytes) != record.hash)
      break;
    at += record.key_size;
    places_[key] = {static_cast<std::int64_t>(at),
                    record.section_size,
                    record.section_hash,
                    record.step,
                    record.error,
                    record.row_steps != 0};
    at += record.section_size;
    end_ = static_cast<std::int64_t>(at);
  }
}

std::optional<KeptParts::Part> KeptParts::find(const std::string& key) const {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return {};
    place = found->second;
  }
  Part part{place.step, place.error, std::vector<std::byte>(place.size), place.row_steps};
  // A kill may leave the beginning of a section, a power cut any bytes.
  if (!read_all(fd_, part.section, place.offset) || xxh3_64(part.section) != place.hash) return {};
  return part;
}

void KeptParts::add(const std::string& key, const Part& part) {
  if (fd_ < 0 || key.size() > kMostKey) return;
  const auto bytes = std::as_bytes(std::span(key));
  Record record{.hash = 0,
                .section_size = part.section.size(),
                .section_hash = xxh3_64(part.section),
                .error = part.error,
                .step = part.step,
                .key_size = static_cast<std::uint32_t>(key.size()),
                .row_steps = part.row_steps};
  record.hash = hash_of(record, bytes);
  const std::lock_guard lock(mutex_);
  if (full_) return;
  const auto first = end_ + static_cast<std::int64_t>(sizeof record);
  const auto section = first + static_cast<std::int64_t>(key.size());
  if (!write_all(fd_, std::as_bytes(std::span(&record, 1)), end_) ||
      !write_all(fd_, bytes, first) || !write_all(fd_, part.section, section)) {
    full_ = true;
    [[maybe_unused]] const int ignored = ::ftruncate(fd_, end_);
    return;
  }
  end_ = section + static_cast<std::int64_t>(part.section.size());
  places_[key] = {section, record.section_size, record.section_hash, part.step, part.error};
}

}  // namespace gbcompress
