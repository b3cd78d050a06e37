#include "checkpoint/posix.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

std::string_view advice(int error) {
  switch (error) {
    case ENOSPC:
      return "; free space there or choose another folder";
    case EDQUOT:
      return "; the quota is used up: remove files or choose another folder";
    case EROFS:
    case EACCES:
    case EPERM:
      return "; choose a folder that may be written to";
    case EIO:
      return "; the disk or the way to it fails: choose a folder on another one";
    case EFBIG:
      return "; raise the limit on the size of files (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "; raise the limit on open files (ulimit -n)";
    case ENOLCK:
    case EOPNOTSUPP:
    case ENOSYS:
      return "; choose a folder on a file system that can do this";
    default:
      return "; choose another folder if it happens again";
  }
}

int rename_exchanging(const fs::path& a, const fs::path& b) {
  return static_cast<int>(repeated([&] {
    return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  }));
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  if (repeated([&] { return ::rename(from.c_str(), to.c_str()); }) != 0)
    fail_io(from, "cannot be renamed to " + printable(to.filename().string()), errno);
}

}  // namespace

void FileHandle::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void fail_io(const fs::path& path, std::string_view what, int error) {
  throw Error(Errc::kIo, printable(path.string()) + " " + std::string(what) + ": " +
                             std::strerror(error) + std::string(advice(error)));
}

FileHandle create_file(const fs::path& path) {
  const int fd =
      repeated([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  if (fd < 0) fail_io(path, "cannot be made", errno);
  return FileHandle(fd);
}

FileHandle open_file(const fs::path& path) {
  // Without O_NONBLOCK a named pipe would wait for its writer.
  const int fd =
      repeated([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      throw Error(Errc::kNotFound, printable(path.string()) + " does not exist");
    throw Error(Errc::kIo, printable(path.string()) + " cannot be read: " + std::strerror(errno));
  }
  FileHandle file(fd);
  struct stat status {};
  if (repeated([&] { return ::fstat(fd, &status); }) != 0 || !S_ISREG(status.st_mode))
    throw Error(Errc::kIo, printable(path.string()) + " cannot be read: it is not a file");
  return file;
}

std::int64_t file_bytes(const FileHandle& file, const fs::path& path) {
  struct stat status {};
  if (repeated([&] { return ::fstat(file.get(), &status); }) != 0)
    throw Error(Errc::kIo, printable(path.string()) + " cannot be read: " + std::strerror(errno));
  return status.st_size;
}

void write_all(const FileHandle& file, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = repeated([&] { return ::write(file.get(), bytes.data(), bytes.size()); });
    if (n <= 0) fail_io(path, "cannot be written", n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void read_all(const FileHandle& file, std::int64_t offset, std::span<std::byte> out,
              const fs::path& path) {
  while (!out.empty()) {
    const ssize_t n = repeated([&] { return ::pread(file.get(), out.data(), out.size(), offset); });
    if (n < 0)
      throw Error(Errc::kIo, printable(path.string()) + " cannot be read: " + std::strerror(errno));
    if (n == 0)
      throw Error(Errc::kTruncated, printable(path.string()) + " ends at byte " +
                                        std::to_string(offset) + ", more was expected");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += n;
  }
}

void finish_file(FileHandle file, const fs::path& path) {
  // A failed fsync is final: the kernel may have dropped what it could not write.
  if (repeated([&] { return ::fsync(file.get()); }) != 0) fail_io(path, "cannot be flushed", errno);
  // close() is not repeated: Linux gives the descriptor back whatever it says.
  if (::close(file.release()) != 0 && errno != EINTR) fail_io(path, "cannot be closed", errno);
}

bool lock_file(const FileHandle& file, const fs::path& path) {
  if (repeated([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  fail_io(path, "cannot be locked", errno);
}

void make_folder(const fs::path& folder) {
  if (repeated([&] { return ::mkdir(folder.c_str(), 0777); }) != 0)
    fail_io(folder, "cannot be made", errno);
}

void make_folders(const fs::path& folder) {
  const fs::path above = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const auto make = [&] { return repeated([&] { return ::mkdir(folder.c_str(), 0777); }); };
  int made = make();
  if (made != 0 && errno == ENOENT && above != folder && above != fs::path(".")) {
    make_folders(above);
    made = make();
  }
  if (made != 0) {
    const int error = errno;
    struct stat status {};
    if (error == EEXIST && ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
    fail_io(folder, "cannot be made", error == EEXIST ? ENOTDIR : error);
  }
  sync_folder(above);
}

void sync_folder(const fs::path& folder) {
  const FileHandle handle(
      repeated([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (handle.get() < 0) fail_io(folder, "cannot be opened", errno);
  // Some file systems cannot sync a folder and say EINVAL; the rename is then as safe as they get.
  if (repeated([&] { return ::fsync(handle.get()); }) != 0 && errno != EINVAL)
    fail_io(folder, "cannot be flushed", errno);
}

std::vector<std::string> list_names(const fs::path& folder) {
  struct Closer {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  DIR* opened = nullptr;
  repeated([&] { return (opened = ::opendir(folder.c_str())) ? 0 : -1; });
  if (!opened) {
    if (errno == ENOENT)
      throw Error(Errc::kNotFound, printable(folder.string()) + " does not exist");
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be read: " + std::strerror(errno));
  }
  const std::unique_ptr<DIR, Closer> dir(opened);
  std::vector<std::string> names;
  while (true) {
    const dirent* entry = nullptr;
    const int result = repeated([&] {
      errno = 0;
      entry = ::readdir(dir.get());
      return !entry && errno != 0 ? -1 : 0;
    });
    if (result != 0)
      throw Error(Errc::kIo,
                  printable(folder.string()) + " cannot be read: " + std::strerror(errno));
    if (!entry) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

bool rename_if_free(const fs::path& from, const fs::path& to) {
  if (repeated([&] { return ::rename(from.c_str(), to.c_str()); }) == 0) return true;
  if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR) return false;
  fail_io(from, "cannot be renamed to " + printable(to.filename().string()), errno);
}

void exchange(const fs::path& from, const fs::path& to, const fs::path& aside) {
  if (rename_exchanging(from, to) == 0) return;
  if (errno != EINVAL && errno != ENOSYS)
    fail_io(from, "cannot be exchanged with " + printable(to.filename().string()), errno);
  rename_or_fail(to, aside);
  try {
    rename_or_fail(from, to);
  } catch (const Error&) {
    ::rename(aside.c_str(), to.c_str());
    throw;
  }
}

void remove_folder(const fs::path& folder) {
  struct stat status {};
  if (repeated([&] { return ::lstat(folder.c_str(), &status); }) != 0) {
    if (errno == ENOENT) return;
    fail_io(folder, "cannot be removed", errno);
  }
  if (!S_ISDIR(status.st_mode)) {
    if (repeated([&] { return ::unlink(folder.c_str()); }) != 0)
      fail_io(folder, "cannot be removed", errno);
    return;
  }
  for (const std::string& name : list_names(folder)) {
    const fs::path file = folder / name;
    // A folder in it is not ours; rmdir() below then says so.
    if (repeated([&] { return ::unlink(file.c_str()); }) != 0 && errno != ENOENT &&
        errno != EISDIR && errno != EPERM)
      fail_io(file, "cannot be removed", errno);
  }
  if (repeated([&] { return ::rmdir(folder.c_str()); }) != 0)
    fail_io(folder, "cannot be removed", errno);
}

}  // namespace gbcompress
