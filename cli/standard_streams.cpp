#include "standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "exit_status.h"
#include "gbcompress/error.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPiece = 1 << 20;

[[noreturn]] void fail_reading(int error) {
  throw Error(Errc::kIo, std::string("standard input cannot be read: ") + std::strerror(error));
}

/// Closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void fail_keeping(const fs::path& folder, int error) {
  throw WriteError(Errc::kIo, "standard input cannot be kept in " + printable(folder.string()) +
                                  ": " + std::strerror(error) + "; set TMPDIR to another folder");
}

int unnamed_file(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // Some file systems have no unnamed files.
  std::string name = (folder / "gbcompress-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// @return how many bytes came, 0 at the end
std::size_t read_some(std::vector<char>& piece) {
  for (;;) {
    pollfd waiting{STDIN_FILENO, POLLIN, 0};
    // Unlike read(), it ends with a signal.
    if (::poll(&waiting, 1, -1) < 0 && errno != EINTR) fail_reading(errno);
    throw_if_interrupted();
    if (waiting.revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR && errno != EAGAIN) fail_reading(errno);
  }
}

/// @return 0, or the error
int write_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, bytes, size);
    if (n < 0 && errno != EINTR) return errno;
    if (n < 0) continue;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace

void keep_standard_input(std::int64_t most) {
  struct stat status {};
  if (::fstat(STDIN_FILENO, &status) != 0) fail_reading(errno);
  if (::isatty(STDIN_FILENO) != 0)
    throw Error(Errc::kUsage, "standard input is a terminal; pipe a file into it, or name one");
  if (S_ISREG(status.st_mode) && ::lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) return;
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  const Descriptor file(failed ? -1 : unnamed_file(folder));
  if (file.fd < 0) fail_keeping(folder, failed ? failed.value() : errno);
  std::vector<char> piece(kPiece);
  std::int64_t bytes = 0;
  while (const std::size_t n = read_some(piece)) {
    bytes += static_cast<std::int64_t>(n);
    if (bytes > most)
      throw Error(Errc::kLimit, "standard input holds more than " + std::to_string(most) +
                                    " bytes; write it to a file and name that");
    if (const int error = write_all(file.fd, piece.data(), n)) fail_keeping(folder, error);
  }
  if (::dup2(file.fd, STDIN_FILENO) < 0) fail_reading(errno);
}

void results_to_standard_error() { std::cout.rdbuf(std::cerr.rdbuf()); }

void check_standard_output() {
  if (::isatty(STDOUT_FILENO) != 0)
    throw Error(Errc::kUsage, "standard output is a terminal; redirect it, or name a file: -o OUT");
}

void send_to_stream(const fs::path& file, const std::string& sink) {
  const Descriptor device(sink == "-" ? -1 : ::open(sink.c_str(), O_WRONLY | O_CLOEXEC));
  if (sink != "-" && device.fd < 0)
    throw Error(Errc::kIo, printable(sink) + " cannot be written: " + std::strerror(errno));
  const int to = sink == "-" ? STDOUT_FILENO : device.fd;
  const std::string name = sink == "-" ? "standard output" : printable(sink);
  const Descriptor from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> piece(kPiece);
  for (;;) {
    const ssize_t n = from.fd < 0 ? -1 : ::read(from.fd, piece.data(), piece.size());
    if (n < 0 && from.fd >= 0 && errno == EINTR) continue;
    if (n < 0)
      throw Error(Errc::kIo, printable(file.string()) + " cannot be read: " + std::strerror(errno));
    if (n == 0) return;
    if (const int error = write_all(to, piece.data(), static_cast<std::size_t>(n)))
      throw Error(Errc::kIo, error == EPIPE ? name + " was closed before the whole file was written"
                                            : name + " cannot be written: " + std::strerror(error));
  }
}

bool standard_output_is_closed() noexcept {
  pollfd state{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

}  // namespace gbcompress::cli
