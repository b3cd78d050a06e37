#pragma once
/// Deltas of deltas: which files lead from a delta back to a whole model, and what they expand to.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gbcompress/decode.h"

namespace gbcompress {

/// A tensor on its way through a chain. Whoever holds its bytes alone may change them in place.
struct OwnTensor {
  TensorEntry entry;
  std::shared_ptr<std::vector<std::byte>> own;  ///< null: the bytes are a file's
};

/// Tensors by name.
struct OwnModel {
  OwnModel() = default;
  explicit OwnModel(const BaseModel& model);
  TensorBundle bundle() const;
  /// Of these tensors, which it shares.
  BaseModel model() const;

  std::map<std::string, OwnTensor, std::less<>> tensors;
  std::vector<std::shared_ptr<const void>> owners;  ///< of bytes that are a file's
  std::vector<std::filesystem::path> files;
  std::int64_t file_bytes = 0;
  std::string digest;  ///< BaseModel::digest(); "": not computed yet
};

/// The models that a delta needs, in the order of its bases, from files of a folder. Each has the
/// tensors that the delta refers to, and the digest of all of its model.
/// @param stated  as LinkFolder has it
/// @throws Error(kNotFound) naming the link that is missing; Error(kCorrupt) for one that expands
///         to other tensors than it states, and for a loop; as ArtifactReader::open()
std::vector<BaseModel> bases_in_folder(const ArtifactReader& delta,
                                       const std::filesystem::path& folder,
                                       const ArtifactLimits& limits, bool stated = false);

/// The tensors of a file, of a delta with the links in a folder.
/// @throws as bases_in_folder() and decode_tensor()
OwnModel expanded(const ArtifactReader& artifact, const std::filesystem::path& folder,
                  const ArtifactLimits& limits);

/// The tensors of the last of some links. The first one is the change since `bases`, in its order;
/// each other one has no pieces and is the change since what the one before expands to. Digests of
/// tensors are not looked at.
/// @throws Error naming the file of the link
OwnModel passed_through(std::vector<OwnModel> bases,
                        const std::vector<const ArtifactReader*>& links);

}  // namespace gbcompress
