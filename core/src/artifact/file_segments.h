#pragma once
/// A file as what it is made of: bytes that are in memory or in the artifact as they are, and parts
/// that are decoded.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/chunk_pool.h"
#include "artifact/file_parts.h"
#include "artifact/originals.h"
#include "format/container.h"
#include "gbcompress/decode.h"
#include "gbcompress/expanded_files.h"

namespace gbcompress {

/// Bytes of one file.
struct FileSegment {
  std::int64_t begin = 0, bytes = 0;
  const std::byte* at = nullptr;      ///< where the bytes are; null: a part
  std::size_t part = 0;               ///< of FileSegments::make()
  std::optional<std::size_t> tensor;  ///< of bytes that are elements
};

struct SegmentedFile {
  std::string name;
  std::int64_t bytes = 0;
  std::vector<FileSegment> segments;  ///< one behind the other, none empty
};

class FileSegments {
 public:
  /// @param files      as write_model_files() takes them
  /// @param originals  of each file, or none
  /// @throws Error(kCorrupt) for a hole behind the end of its file, and for a file of another size
  ///         than the original
  FileSegments(const ArtifactReader& artifact, std::vector<ContainerFile> files,
               std::vector<OriginalFile> originals, DecodeOptions options);

  const std::vector<SegmentedFile>& files() const noexcept { return files_; }
  /// The elements of a part, in memory of their own. [thread-safe] @throws as decode_elements()
  HeldBytes make(std::size_t part);

 private:
  struct Part {
    std::int64_t bytes = 0;
    std::optional<std::size_t> stripe;  ///< of stripes_
    std::size_t file = 0, hole = 0;     ///< of a payload that is made of a whole tensor
  };
  /// @param first  parts of each tensor in stripes
  /// @param next   the next one of these tensors
  void lay_out(std::size_t file, std::span<const std::size_t> first, std::size_t& next);
  std::int64_t payload_bytes(const ContainerFile& file, const Hole& hole) const;
  bool in_stripes(std::size_t file, std::size_t hole) const;
  std::vector<std::byte> payload(const Part& part);
  DecodedTensor whole(std::size_t tensor);
  std::shared_ptr<std::byte> memory(std::size_t bytes);

  const ArtifactReader& artifact_;
  const std::string label_;
  std::vector<ContainerFile> contents_;
  std::vector<OriginalFile> originals_;
  DecodeOptions options_;
  bool apart_;
  std::mutex one_by_one_;  ///< where tensors are not decoded apart
  std::optional<FileParts> stripes_;
  std::shared_ptr<ChunkPool> chunks_ = std::make_shared<ChunkPool>(kPlaneStripe);
  std::vector<Part> parts_;
  std::vector<SegmentedFile> files_;
};

}  // namespace gbcompress
