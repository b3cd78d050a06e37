#include "fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>

namespace gbcompress::fuzz {

MemoryFile::MemoryFile(Input content) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
  if (fd_ < 0) throw std::runtime_error("no file in memory");
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t n = ::write(fd_, content.data() + at, content.size() - at);
    if (n <= 0) {
      ::close(fd_);
      throw std::runtime_error("a file in memory cannot be written");
    }
    at += static_cast<std::size_t>(n);
  }
}

MemoryFile::~MemoryFile() { ::close(fd_); }

std::filesystem::path MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(fd_); }

}  // namespace gbcompress::fuzz
