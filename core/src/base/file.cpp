#include "base/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/mapped_inputs.h"
#include "base/stale_temporaries.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

std::string reason(int error) { return std::strerror(error); }

[[noreturn]] void fail_open(const fs::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR)
    throw Error(Errc::kNotFound, path.string() + " does not exist");
  throw Error(Errc::kIo, path.string() + " cannot be read: " + reason(error));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw Error(Errc::kIo, folder.string() + " cannot be opened: " + reason(errno));
  // Some file systems cannot sync a folder and say EINVAL; the rename is then as safe as they get.
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL;
  const int error = errno;
  ::close(fd);
  if (failed) throw Error(Errc::kIo, folder.string() + " cannot be flushed: " + reason(error));
}

void* map_anonymous(std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

/// The content of a file that lies on a file system which maps none, as some in user space and over
/// networks.
/// @throws Error(kIo); Error(kFailure) where it became shorter; std::bad_alloc
void* read_whole(int fd, std::size_t size, const fs::path& path) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  void* memory = map_anonymous(size);
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = ::pread(fd, static_cast<std::byte*>(memory) + at, std::min(kPiece, size - at),
                              static_cast<off_t>(at));
    const int error = errno;
    if (n < 0 && error == EINTR) continue;
    if (n <= 0) {
      ::munmap(memory, size);
      if (n < 0) fail_open(path, error);
      throw Error(Errc::kFailure, printable(path.string()) +
                                      " became shorter while it was read; no file was written from "
                                      "what is missing; try again with a "
                                      "whole file");
    }
    at += static_cast<std::size_t>(n);
  }
  ::mprotect(memory, size, PROT_READ);
  return memory;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int fd = file.get();
  if (fd < 0) fail_open(path, errno);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    const char* kind = S_ISDIR(status.st_mode) ? "a folder" : "not an ordinary file";
    throw Error(Errc::kIo, path.string() + " is " + kind + ", a file was expected");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) {
    check_mapped_inputs();  // it may have become empty since it was mapped before
    return;
  }
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) {
    if (errno == ENOMEM) throw std::bad_alloc();
    data_ = static_cast<const std::byte*>(read_whole(fd, size_, path));
    return;
  }
  data_ = static_cast<const std::byte*>(memory);
  try {
    watched_ = watch_mapping(static_cast<std::byte*>(memory), size_, path, status);
  } catch (...) {
    ::munmap(memory, size_);
    throw;
  }
}

MappedFile::~MappedFile() {
  forget_mapping(watched_);
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      watched_(std::exchange(other.watched_, nullptr)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(watched_, other.watched_);
  return *this;
}

std::vector<std::byte> read_file(const fs::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes)
    throw Error(Errc::kLimit, path.string() + " has " + std::to_string(file.bytes().size()) +
                                  " bytes, at most " + std::to_string(max_bytes) + " are read");
  return {file.bytes().begin(), file.bytes().end()};
}

std::string read_text(const fs::path& path, std::size_t max_bytes) {
  const auto bytes = read_file(path, max_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string file_digest(const fs::path& file) {
  const MappedFile mapped(file);
  return to_hex(sha256(mapped.bytes()));
}

namespace {

/// What a symbolic link names in the end, whether it exists or not. Renaming over the link would
/// replace it.
fs::path link_target(fs::path path) {
  std::error_code failed;
  for (int links = 0; fs::is_symlink(fs::symlink_status(path, failed)); ++links) {
    if (links == 40) throw Error(Errc::kIo, path.string() + " is a loop of symbolic links");
    path = folder_of(path) / fs::read_symlink(path);  // an absolute target replaces the folder
  }
  return path;
}

/// A descriptor of this process, which is written where it stands, whatever it is open on.
bool names_a_descriptor(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/self/fd/");
}

}  // namespace

AtomicFile::AtomicFile(fs::path path, bool overwrite)
    : path_(std::move(path)), overwrite_(overwrite) {
  std::error_code ignored;
  const auto status = fs::symlink_status(path_, ignored);
  if (fs::is_directory(fs::status(path_, ignored)) || !path_.has_filename())
    throw Error(Errc::kIo, path_.string() + " is a folder; give a file name");
  if (fs::exists(status)) {
    const auto followed = fs::status(path_, ignored);
    device_ = fs::is_character_file(followed) || fs::is_fifo(followed) ||
              names_a_descriptor(path_.string());
    if (device_) {
      open_for_device();
      return;
    }
    if (fs::exists(followed) && !fs::is_regular_file(followed))
      throw Error(Errc::kIo, path_.string() + " is not an ordinary file and is not replaced");
    if (fs::exists(followed) && !overwrite_)
      throw Error(Errc::kExists, path_.string() + " exists; use `overwrite` to replace it");
    path_ = link_target(path_);
  }
  open_beside();
}

void AtomicFile::open_for_device() {
  if (::access(path_.c_str(), W_OK) != 0)
    throw Error(Errc::kIo, path_.string() + " cannot be written: " + reason(errno));
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  std::string name = (folder / "gbcompress-XXXXXX").string();
  fd_ = failed ? -1 : ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0)
    throw Error(Errc::kIo, "a file in " + folder.string() + " cannot be made: " + reason(errno) +
                               "; set TMPDIR to another folder");
  temporary_ = name;
}

void AtomicFile::send_to_device() {
  const MappedFile file(temporary_);
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  int error = fd < 0 ? errno : 0;
  for (std::span<const std::byte> bytes = file.bytes(); error == 0 && !bytes.empty();) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) error = errno;
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (fd >= 0) ::close(fd);
  if (error != 0) throw Error(Errc::kIo, path_.string() + " cannot be written: " + reason(error));
  ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::open_beside() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = path_;
    temporary_ += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0 || errno != EEXIST) break;
  }
  if (fd_ < 0) {
    const int error = errno;
    temporary_.clear();
    const std::string why = error == ENOENT ? "its folder does not exist" : reason(error);
    throw Error(Errc::kIo, path_.string() + " cannot be written: " + why);
  }
  lock_temporary(fd_);
  remove_stale_temporaries(path_, fd_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

namespace {

/// Lets the disk begin with what was written, so that it works while more is decoded, and flush()
/// has less to wait for. A hint: what it does not reach, flush() writes.
void begin_writing(int fd, std::size_t written) {
  constexpr off_t kBlock = off_t{8} << 20;
  const off_t at = ::lseek(fd, 0, SEEK_CUR), end = at / kBlock * kBlock;
  const off_t before = (at - static_cast<off_t>(written)) / kBlock * kBlock;
  if (before >= 0 && end > before)
    ::sync_file_range(fd, before, end - before, SYNC_FILE_RANGE_WRITE);
}

}  // namespace

void AtomicFile::write(std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      throw Error(Errc::kIo, path_.string() + " cannot be written: " + reason(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  begin_writing(fd_, size);
}

const fs::path& AtomicFile::flush() {
  if (::fsync(fd_) != 0)
    throw Error(Errc::kIo, path_.string() + " cannot be flushed: " + reason(errno));
  return temporary_;
}

void AtomicFile::commit() {
  check_mapped_inputs();
  flush();
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0)
    throw Error(Errc::kIo, path_.string() + " cannot be closed: " + reason(errno));
  if (device_) return send_to_device();
  int failed = 0;
  if (overwrite_) {
    failed = ::rename(temporary_.c_str(), path_.c_str());
  } else {
    failed = static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, temporary_.c_str(), AT_FDCWD,
                                        path_.c_str(), RENAME_NOREPLACE));
    // File systems without that flag (some network ones): a hard link also refuses to replace.
    if (failed && (errno == EINVAL || errno == ENOSYS)) {
      failed = ::link(temporary_.c_str(), path_.c_str());
      if (!failed) ::unlink(temporary_.c_str());
    }
  }
  if (failed) {
    if (errno == EEXIST)
      throw Error(Errc::kExists, path_.string() + " exists; use `overwrite` to replace it");
    throw Error(Errc::kIo, path_.string() + " cannot be put in place: " + reason(errno));
  }
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void check_writable(const fs::path& path, bool overwrite) { AtomicFile probe(path, overwrite); }

void check_not_an_input(const fs::path& output, std::span<const fs::path> inputs) {
  struct stat written {};
  if (::stat(output.c_str(), &written) != 0) return;
  for (const fs::path& input : inputs) {
    struct stat read {};
    if (::stat(input.c_str(), &read) != 0 || read.st_dev != written.st_dev ||
        read.st_ino != written.st_ino)
      continue;
    const std::string out = printable(output.string()), in = printable(input.string());
    throw Error(Errc::kUsage, out +
                                  (out == in ? " is both an input and the output"
                                             : " is the same file as the input " + in) +
                                  "; name another output");
  }
}

}  // namespace gbcompress
