#pragma once
/// The model that a delta is the difference from, and chains of deltas (docs/guides/deltas.md). No
/// LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Tensors by name. Copies share them.
class BaseModel {
 public:
  /// A model file or folder as open_tensors() reads it, mapped where it can be, or a `.gbz`, which
  /// is expanded into memory. In a folder without weights, its one `.gbz` (artifact_in()). Of a
  /// `.gbz` that is a delta itself, the links of its chain are found in its folder.
  /// @throws Error(kNotFound) naming a link that is missing; Error(kCorrupt) for a loop, and for a
  ///         link that expands to other tensors than it states; Error(kUnsupported) for one of
  ///         layer types that need a plugin; else as open_tensors() and ArtifactReader::open()
  static BaseModel open(const std::filesystem::path& path, const ArtifactLimits& limits = {});
  /// The base of a delta. In a folder of several files, the one whose tensors have the digest that
  /// the delta needs, whole or at the end of a chain of deltas. @throws as open()
  static BaseModel open_for(const ArtifactReader& delta, const std::filesystem::path& path,
                            const ArtifactLimits& limits = {});
  /// The base of a delta that was opened by its path, from files that state the digest of their
  /// tensors, as those of a family (nearest_model()), of a chain and of rebase do: in its folder,
  /// in subfolders of that and, where it is the only `.gbz` of its folder, beside that.
  /// @throws Error(kNotFound) naming the link that is missing; else as open()
  static BaseModel beside(const ArtifactReader& delta, const ArtifactLimits& limits = {});
  /// The model that a delta expands to. @param before  its base
  /// @throws Error(kUsage) where the delta was made with another base; as decode_tensor()
  static BaseModel on(const ArtifactReader& delta, const BaseModel& before);
  explicit BaseModel(TensorBundle tensors);

  /// SHA-256 of names, types, shapes and elements of all tensors in the order of their names, in
  /// hexadecimal: the same for a model whatever file it comes from.
  const std::string& digest() const noexcept { return digest_; }
  const TensorBundle& tensors() const noexcept { return *tensors_; }
  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;
  /// For DecodeOptions::base. Files that hold no reference to a base ignore it.
  /// @throws Error(kUsage) where the file was made with another base
  std::function<std::span<const std::byte>(const ArtifactTensor&)> source_for(
      const ArtifactReader& artifact) const;

 private:
  friend struct OwnModel;
  /// @param digest  of these tensors; "": unknown
  [[gnu::visibility("hidden")]] BaseModel(TensorBundle tensors, std::string digest);

  std::shared_ptr<const TensorBundle> tensors_;
  std::string digest_;
};

/// Which of some models an exact delta of `model` is smallest on, by samples of the tensors that
/// have the same name, type and shape; nothing where a delta saves less than a twentieth.
/// @return its place; of those that save about the same the first one
std::optional<std::size_t> nearest_model(const TensorBundle& model,
                                         std::span<const BaseModel> others);

/// A file between a delta and the whole model that its chain begins with.
struct ChainLink {
  std::filesystem::path file;  ///< "": no file has these tensors
  std::string digest;          ///< of the tensors that the next link needs
  std::int64_t bytes = 0;      ///< of the file
};
/// The chain of a delta: its base first, the whole model last. Of a file that is no delta, nothing.
/// @throws Error(kCorrupt) for a loop; as BaseModel::open()
std::vector<ChainLink> chain_of(const ArtifactReader& delta, const std::filesystem::path& folder,
                                const ArtifactLimits& limits = {});

}  // namespace gbcompress
