#pragma once
/// Whole files in, whole files out.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

struct MappedInput;

/// A file mapped read-only for as long as the object lives. Where it becomes shorter meanwhile,
/// what is gone reads as zeros, and check_mapped_inputs() throws (mapped_inputs.h).
class MappedFile {
 public:
  /// @throws Error(kNotFound) where there is none; Error(kIo) for a folder, a device, no permission
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  MappedInput* watched_ = nullptr;
};

/// @throws as MappedFile, and Error(kLimit) for a file above `max_bytes`
std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t max_bytes);
std::string read_text(const std::filesystem::path& path, std::size_t max_bytes);

/// A file that appears whole or not at all: written beside its destination under a temporary name,
/// flushed to the disk, renamed, and the folder flushed. Without commit() nothing stays behind; what
/// a killed process left is removed by the next that writes the same file (stale_temporaries.h).
class AtomicFile {
 public:
  /// @throws Error(kExists) where `path` exists and `overwrite` is false; Error(kIo) for a path that
  ///         is a folder, whose folder does not exist, or that cannot be written
  AtomicFile(std::filesystem::path path, bool overwrite);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// @throws Error(kIo), on a full disk too
  void write(std::span<const std::byte> bytes);
  /// Brings what was written to the disk. @return the temporary file, which may be read until
  /// commit(); whoever opens it keeps these bytes, whatever another process then writes to the path
  /// @throws Error(kIo)
  const std::filesystem::path& flush();
  /// @throws Error(kIo), Error(kExists) where another process made the file meanwhile;
  /// Error(kFailure)
  ///         where a mapped input became shorter, so that what was written is worth nothing
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  bool overwrite_;
  int fd_ = -1;
};

/// Throws what AtomicFile would throw at its start, so that hours of work do not end in
/// "no permission". Leaves nothing behind.
void check_writable(const std::filesystem::path& path, bool overwrite);

}  // namespace gbcompress
