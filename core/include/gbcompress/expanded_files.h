#pragma once
/// The files that a `.gbz` expands to, read at any offset without writing them. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/base_model.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Bytes, valid as long as a copy of their owner.
struct HeldBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Memory and threads that several ExpandedFiles share. Copies are the same one.
class DecodedCache {
 public:
  /// @param bytes    of decoded stripes that stay in memory, at least 1 MiB; a stripe has at most
  ///                 512 KiB of exact floats, or 4 MiB of quantized weights, and another tensor is
  ///                 one stripe, which stays while it is the latest one, whatever its size
  /// @param threads  that decode ahead of sequential reads; 0: one for each processor
  /// @throws Error(kUsage)
  explicit DecodedCache(std::int64_t bytes, int threads = 0);

  /// Bytes of stripes in memory. [thread-safe]
  std::int64_t held() const;
  /// Bytes of all stripes that were decoded since the constructor, one that was decoded again
  /// counted again. [thread-safe]
  std::int64_t decoded() const;

 private:
  friend class ExpandedFiles;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Names, sizes and bytes are those of the files that `expand` writes. Stripes around a read are
/// decoded, and those that follow where reads are sequential; stripes behind a sequential read
/// leave memory. The digest of the `.gbz` is checked before the first byte is given.
class ExpandedFiles {
 public:
  struct Options {
    ArtifactLimits limits = {};
    /// The original file of a `.gbz` that was made of one has its own name, as in a folder that
    /// `compress FOLDER -o OUT/` wrote; else that of the `.gbz` with the original suffix.
    bool own_name = true;
    /// The bases of a delta, called once, by the first read. Unless it is set: BaseModel::beside().
    std::function<std::vector<BaseModel>(const ArtifactReader& delta)> bases = {};
  };
  /// Maps the file and reads its header. Tensors that an ONNX model has as varints are decoded,
  /// for their sizes.
  /// @throws Error(kUnsupported) for layer types that need a plugin, and as ArtifactReader::open()
  ExpandedFiles(const std::filesystem::path& artifact, const DecodedCache& cache,
                const Options& options);
  ExpandedFiles(const std::filesystem::path& artifact, const DecodedCache& cache)
      : ExpandedFiles(artifact, cache, Options()) {}

  struct File {
    std::string name;  ///< relative, with slashes
    std::int64_t bytes = 0;
  };
  const std::vector<File>& files() const noexcept;

  /// Bytes [offset, offset + bytes) of a file, up to its end, in pieces one behind the other.
  /// [thread-safe]
  /// @throws Error(kUsage) for a negative offset or size, and a file that is none; Error(kCorrupt)
  ///         for a damaged `.gbz`, and one that was written to since it was opened, naming the
  ///         tensor that the first byte of the damaged piece belongs to; as decode_elements()
  std::vector<HeldBytes> pieces(std::size_t file, std::int64_t offset, std::int64_t bytes) const;
  /// The same, copied. @return how many bytes there are, fewer than requested at the end only
  std::size_t read(std::size_t file, std::int64_t offset, std::span<std::byte> to) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace gbcompress
