#pragma once
/// The safetensors format (https://github.com/huggingface/safetensors#format), read with every
/// check of its specification and written byte for byte as its reference writer does.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "format/tensor_bundle.h"

namespace gbcompress {

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  ///< bytes

/// One file. Bytes of its tensors stay where they are: in the mapped file, or in the caller's span.
class SafetensorsFile {
 public:
  /// @throws Error(kNotFound, kIo) as MappedFile;
  ///         Error(kTruncated) for an empty file, a header or tensor past its end;
  ///         Error(kUnsupported) for an unknown dtype or field of an entry;
  ///         Error(kLimit) for a header above 100,000,000 bytes, 1,000,000 tensors, 8 dimensions,
  ///         names of 512 bytes, or a size beyond 63 bits;
  ///         Error(kCorrupt) for anything else that contradicts the format
  static SafetensorsFile open(const std::filesystem::path& path);
  /// @param bytes  must outlive the result
  /// @param label  stands for the file's name in messages
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, const std::string& label);

  const std::vector<TensorEntry>& tensors() const noexcept { return tensors_; }  ///< by name
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }  ///< of the whole file

 private:
  std::shared_ptr<const void> map_;
  std::span<const std::byte> bytes_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// One file as a bundle. @throws as SafetensorsFile::open
TensorBundle open_safetensors(const std::filesystem::path& path);

/// Gives the bytes of tensors[index], valid until the next call.
using TensorBytes = std::function<std::span<const std::byte>(std::size_t index)>;

/// Calls sink(piece) for the bytes of tensors[index], in order.
using TensorPieces = std::function<void(
    std::size_t index, const std::function<void(std::span<const std::byte>)>& sink)>;

/// Writes one file, atomically, tensor after tensor: nothing but the header is held in memory.
/// @param tensors   in any order; the file orders them by dtype, then name
/// @param metadata  "format": "pt" is added where it lacks
/// @param source    if given, called for each tensor's bytes in the file's order, and
///                  TensorEntry::bytes has no effect
/// @return bytes written
/// @throws Error(kExists, kIo) as AtomicFile; Error(kShapeMismatch) where bytes do not fit dtype
/// and
///         shape; Error(kUsage) for a name used twice; as check_tensor_name() and tensor_bytes()
std::int64_t write_safetensors(const std::filesystem::path& path,
                               std::span<const TensorEntry> tensors,
                               std::map<std::string, std::string> metadata, bool overwrite,
                               const TensorBytes& source = {});

/// The same, of tensors that come piece by piece.
std::int64_t write_safetensors_pieces(const std::filesystem::path& path,
                                      std::span<const TensorEntry> tensors,
                                      std::map<std::string, std::string> metadata, bool overwrite,
                                      const TensorPieces& source);

/// The beginning of a file up to its first element: the length of the header, and the header, which
/// is `start`, entries of the tensors in their order as the reference writer makes them, and spaces
/// up to a multiple of 8 bytes.
/// @param start   up to the first entry, without the comma before it: "{", or with metadata
/// @param tensors  one behind the other in the file; their bytes are not looked at
/// @throws Error(kLimit) for a header above 100,000,000 bytes; as tensor_bytes()
std::vector<std::byte> safetensors_start(std::string start, std::span<const TensorEntry> tensors,
                                         const std::string& label);

/// Size of the file that the reference writer makes of such tensors, whose bytes are not looked at.
/// @param metadata  as it is; none: no entry of it
/// @throws Error(kUsage) for a name used twice; as check_tensor_name() and tensor_bytes()
std::int64_t safetensors_bytes(std::span<const TensorEntry> tensors,
                               const std::map<std::string, std::string>& metadata);

}  // namespace gbcompress
