#pragma once
/// The files that a model was read from, kept so that they can be written again byte for byte
/// (docs/reference/original-files.md): what they have beside the elements of tensors, and where
/// those lie.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/container.h"
#include "gbcompress/artifact.h"
#include "gbcompress/tensors.h"

namespace gbcompress {

struct OriginalFile {
  std::int64_t bytes = 0;
  /// 32 raw bytes; zeros where the values are not the original ones, and nothing is compared.
  std::string sha256 = std::string(32, '\0');
  bool is_exact() const { return sha256.find_first_not_of('\0') != std::string::npos; }
  /// Whether the skeleton is the start of a safetensors header, as safetensors_start() takes it.
  /// The rest of the header follows from the tensors of the holes.
  bool headed = false;
  /// Of holes, by their index, whose elements lie along other dimensions first: the dimensions from
  /// the longest stride to the shortest, as TensorEntry::order has them.
  std::map<std::size_t, std::vector<std::uint8_t>> orders = {};
  ContainerFile content = {};  ///< its name is the file's, relative to the folder of the first one
};

struct OriginalFiles {
  std::string format;  ///< of the files with tensors: "safetensors" or "torch"
  std::vector<OriginalFile> files;

  std::vector<std::byte> encode() const;
  /// @param tensors  of the artifact
  /// @throws Error(kCorrupt, kTruncated, kLimit, kUnsupported)
  static OriginalFiles decode(std::span<const std::byte> bytes, std::size_t tensors,
                              const std::string& label);
};

/// The files of a bundle, without their digests. Tensors whose bytes lie in a file become holes of
/// it; all other bytes are its skeleton.
/// @param note  why nothing is kept of files that the bundle names; else left as it is
/// @return nothing for a bundle without TensorBundle::contents, where most of a checkpoint was left
///         out, and beyond the bounds of a container
std::optional<OriginalFiles> find_originals(const TensorBundle& bundle, std::string& note);

/// Sets the digests. Ends early where an interrupt is requested.
void digest_originals(OriginalFiles& originals, const TensorBundle& bundle);

/// The file with its whole skeleton. @throws as safetensors_start()
ContainerFile whole_file(const OriginalFile& file, const std::vector<ArtifactTensor>& tensors,
                         const std::string& label);

/// The elements of a tensor as a hole with that order has them.
/// @throws Error(kCorrupt) where the tensor has other dimensions, or elements of no whole bytes
std::vector<std::byte> ordered_elements(std::span<const std::byte> bytes,
                                        const ArtifactTensor& tensor,
                                        std::span<const std::uint8_t> order,
                                        const std::string& label);

/// Compares the files that an artifact keeps with those that it was made of.
/// @param bundle  what find_originals() was given; its tensors are those of the artifact. One
/// without
///                contents is not compared
/// @throws Error(kFailure) for a byte that would come back as another
void check_originals(const ArtifactReader& artifact, const TensorBundle& bundle);

}  // namespace gbcompress
