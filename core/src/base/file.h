#pragma once
/// Whole files in; whole files out are AtomicFile (tensors.h).

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

struct MappedInput;

/// A file mapped read-only for as long as the object lives. Where it becomes shorter meanwhile,
/// what is gone reads as zeros, and check_mapped_inputs() throws (mapped_inputs.h). A file that its
/// file system does not map is read into memory.
class MappedFile {
 public:
  /// @throws Error(kNotFound) where there is none; Error(kIo) for a folder, a device, no
  /// permission;
  ///         Error(kFailure) where it becomes shorter while it is read into memory, and as
  ///         check_mapped_inputs() where it is empty; std::bad_alloc
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

}  // namespace gbcompress
