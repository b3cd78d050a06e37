#pragma once
/// The system calls of a save. Interrupted ones are repeated, up to a bound, so that a storm of
/// signals ends in a message; failures say what to do.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gbcompress {

/// Owns a file descriptor.
class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int fd) noexcept : fd_(fd) {}
  ~FileHandle() { reset(); }
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  int get() const noexcept { return fd_; }
  /// Gives up ownership.
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// Calls `call` again as long as it returns -1 with EINTR, at most a thousand times.
template <typename Call>
auto repeated(Call&& call) {
  for (int attempt = 0;; ++attempt) {
    const auto result = call();
    if (result != -1 || errno != EINTR || attempt == 1000) return result;
  }
}

/// "PATH WHAT: reason; advice". @throws Error(kIo), always
[[noreturn]] void fail_io(const std::filesystem::path& path, std::string_view what, int error);

/// An ordinary file that did not exist. @throws Error(kIo)
FileHandle create_file(const std::filesystem::path& path);
/// An ordinary file to read. @throws Error(kNotFound); Error(kIo) for anything else than a file
FileHandle open_file(const std::filesystem::path& path);
/// Bytes of an open file. @throws Error(kIo)
std::int64_t file_bytes(const FileHandle& file, const std::filesystem::path& path);
void write_all(const FileHandle& file, std::span<const std::byte> bytes,
               const std::filesystem::path& path);
/// Fills `out` from `offset` on. @throws Error(kTruncated) where the file ends before, Error(kIo)
void read_all(const FileHandle& file, std::int64_t offset, std::span<std::byte> out,
              const std::filesystem::path& path);
/// Flushes to the disk and closes; only then is what was written known to be there.
void finish_file(FileHandle file, const std::filesystem::path& path);
/// Takes the lock of an open file. False where another process has it. @throws Error(kIo)
bool lock_file(const FileHandle& file, const std::filesystem::path& path);

/// @throws Error(kIo), also where it exists
void make_folder(const std::filesystem::path& folder);
/// With the folders above it, flushed to the disk; nothing where it exists.
void make_folders(const std::filesystem::path& folder);
void sync_folder(const std::filesystem::path& folder);
/// In no order, without "." and "..". @throws Error(kNotFound, kIo)
std::vector<std::string> list_names(const std::filesystem::path& folder);
/// Renames, at one instant. @return false where `to` exists (and is not an empty folder)
bool rename_if_free(const std::filesystem::path& from, const std::filesystem::path& to);
/// Swaps two names at one instant, where the file system can; else with a moment in which `to` does
/// not exist. @param aside  a free name for that moment
void exchange(const std::filesystem::path& from, const std::filesystem::path& to,
              const std::filesystem::path& aside);
/// Removes a folder and the files in it, not folders in it; or a file of that name, if it is there.
void remove_folder(const std::filesystem::path& folder);

}  // namespace gbcompress
