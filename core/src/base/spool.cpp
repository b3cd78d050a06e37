#include "base/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kPiece = 1 << 20;
/// Bytes that are mapped at once, and the fewest for which mapping is faster than reading.
constexpr std::int64_t kMapped = 4 << 20, kMappedFrom = 1 << 18;

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

/// The pages of a part of a file, without a copy of them.
class Spool::Window {
 public:
  Window(int fd, std::int64_t offset, std::int64_t size) {
    static const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
    const std::int64_t before = offset % page;
    mapped_ = static_cast<std::size_t>(size + before);
    memory_ = ::mmap(nullptr, mapped_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, offset - before);
    if (memory_ == MAP_FAILED) return;
    bytes_ = {static_cast<const std::byte*>(memory_) + before, static_cast<std::size_t>(size)};
  }
  ~Window() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, mapped_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  /// Empty on file systems that cannot be mapped.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::size_t mapped_;
  void* memory_;
  std::span<const std::byte> bytes_;
};

void Spool::read(std::int64_t offset, std::int64_t size,
                 const std::function<void(std::span<const std::byte>)>& visit) const {
  for (; size >= kMappedFrom; offset += kMapped, size -= kMapped) {
    const Window window(fd_, offset, std::min(size, kMapped));
    if (window.bytes().empty()) break;
    for (auto rest = window.bytes(); !rest.empty();) {
      const auto piece = rest.first(std::min(kPiece, rest.size()));
      visit(piece);
      rest = rest.subspan(piece.size());
    }
  }
  if (size <= 0) return;
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
