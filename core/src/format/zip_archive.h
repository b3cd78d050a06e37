#pragma once
/// The kind of zip file that torch.save and TorchScript write: stored entries, zip64 where large
/// (PKWARE's APPNOTE 6.3). Nothing is inflated, and no entry name is ever used as a path.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

class ZipArchive {
 public:
  /// @param bytes  of the whole file; must outlive the archive
  /// @throws Error(kTruncated) without an end record; Error(kCorrupt) for records that contradict
  ///         each other or the file; Error(kUnsupported) for several disks; Error(kLimit) above
  ///         4 million entries
  ZipArchive(std::span<const std::byte> bytes, std::string label);

  bool contains(const std::string& name) const { return entries_.contains(name); }
  /// Bytes of an entry. @throws Error(kCorrupt) where there is none, its CRC-32 differs or its
  /// records contradict each other; Error(kUnsupported) for a compressed or encrypted one
  std::span<const std::byte> read(const std::string& name) const;

  struct Entry {
    std::uint64_t header = 0, size = 0;
    std::uint32_t crc = 0;
    std::uint16_t flags = 0, method = 0;
  };
  const std::map<std::string, Entry>& entries() const noexcept { return entries_; }

 private:
  void read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);
  [[noreturn]] void corrupt(const std::string& what) const;

  std::span<const std::byte> bytes_;
  std::string label_;
  std::uint64_t directory_ = 0;  ///< where the entries' data ends
  std::map<std::string, Entry> entries_;
};

}  // namespace gbcompress
