#include "base/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kPiece = 1 << 20;

[[noreturn]] void fail(const std::filesystem::path& folder, const char* what, int error) {
  throw Error(Errc::kIo, "a temporary file in " + printable(folder.string()) + " cannot be " +
                             what + ": " + std::strerror(error));
}

}  // namespace

Spool::Spool(const std::filesystem::path& folder) : folder_(folder.empty() ? "." : folder) {
  // Where the file system has no unnamed files, one is made and its name removed at once.
  fd_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ >= 0) return;
  std::string name = (folder_ / ".gbcompress-XXXXXX").string();
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) fail(folder_, "made", errno);
  ::unlink(name.c_str());
}

Spool::~Spool() {
  if (fd_ >= 0) ::close(fd_);
}

std::int64_t Spool::append(std::span<const std::byte> bytes) {
  const std::int64_t first = size_;
  replace(first, bytes);
  size_ += static_cast<std::int64_t>(bytes.size());
  return first;
}

void Spool::replace(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      fail(folder_, "written", errno);
    }
    offset += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Spool::read(std::int64_t offset, std::int64_t size,
                 const std::function<void(std::span<const std::byte>)>& visit) const {
  std::vector<std::byte> piece(std::min<std::size_t>(kPiece, static_cast<std::size_t>(size)));
  for (std::int64_t end = offset + size; offset < end;) {
    const auto wanted = std::min<std::size_t>(piece.size(), static_cast<std::size_t>(end - offset));
    read(offset, std::span(piece).first(wanted));
    visit(std::span(piece).first(wanted));
    offset += static_cast<std::int64_t>(wanted);
  }
}

void Spool::read(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(fd_, to.data(), to.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(folder_, "read", n < 0 ? errno : EIO);
    offset += n;
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace gbcompress
