#pragma once
/// Whole files out, and what identifies them. No LibTorch.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// A file that appears whole or not at all: written beside its destination under a temporary name,
/// flushed to the disk, renamed, and the folder flushed. Without commit() nothing stays behind;
/// what a killed process left is removed by the next that writes the same file. A symbolic link
/// stays, and what it names is written. A device, a pipe or an open descriptor (/dev/null,
/// /dev/stdout) has no name to put a file under: it gets the bytes at commit(), from a file in
/// TMPDIR.
class AtomicFile {
 public:
  /// @throws Error(kExists) where `path` is a file that exists and `overwrite` is false; Error(kIo)
  ///         for a path that is a folder, whose folder does not exist, or that cannot be written
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
  ///         Error(kFailure) where a mapped input became shorter, so that what was written is worth
  ///         nothing
  void commit();

 private:
  void open_beside();
  void open_for_device();
  void send_to_device();

  std::filesystem::path path_, temporary_;
  bool overwrite_, device_ = false;
  int fd_ = -1;
};

/// Throws what AtomicFile would throw at its start, so that hours of work do not end in
/// "no permission". Leaves nothing behind.
void check_writable(const std::filesystem::path& path, bool overwrite);

/// SHA-256 of bytes: 32 raw bytes, for to_hex().
std::string sha256(std::span<const std::byte> bytes);
/// Of a file's bytes, in lower-case hexadecimal.
/// @throws Error(kNotFound); Error(kIo) for a folder, a device, no permission
std::string file_digest(const std::filesystem::path& file);
std::string to_hex(std::string_view bytes);  ///< lower case

}  // namespace gbcompress
