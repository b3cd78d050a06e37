#pragma once
/// Bytes that are made piece by piece and are too many to hold, in an unnamed file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace gbcompress {

class Spool {
 public:
  /// @param folder  whose file system holds the bytes; the file goes with the process
  /// @throws Error(kIo) where it cannot be made
  explicit Spool(const std::filesystem::path& folder);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// @return where they begin. @throws Error(kIo), on a full disk too
  std::int64_t append(std::span<const std::byte> bytes);
  /// In the place of bytes that were appended before. @throws Error(kIo)
  void replace(std::int64_t offset, std::span<const std::byte> bytes);
  /// Calls visit(piece) for [offset, offset + size) in order. @throws Error(kIo)
  void read(std::int64_t offset, std::int64_t size,
            const std::function<void(std::span<const std::byte>)>& visit) const;
  /// As many bytes as `to` has. [thread-safe] @throws Error(kIo)
  void read(std::int64_t offset, std::span<std::byte> to) const;

 private:
  class Window;

  std::filesystem::path folder_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace gbcompress
