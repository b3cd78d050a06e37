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

/// Elements of a tensor of one of a file's bases.
struct BaseRange {
  std::size_t base = 0;  ///< place in ArtifactReader::bases()
  std::string_view name = {};
  DType dtype = DType::kF32;
  const std::vector<std::int64_t>* shape = nullptr;  ///< that it has to have; null: any
  std::int64_t first = 0, elements = 0;
};
/// Their bytes. @throws Error(kCorrupt) where the base has no such elements
using BaseSource = std::function<std::span<const std::byte>(const BaseRange& range)>;

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
  /// The bases of a delta, for base_source(): of each path the model that it is, or, of a folder of
  /// several files, the models whose digests the delta needs, whole or at the end of a chain of
  /// deltas. @throws as open()
  static std::vector<BaseModel> open_for(const ArtifactReader& delta,
                                         std::span<const std::filesystem::path> paths,
                                         const ArtifactLimits& limits = {});
  /// The bases of a delta that was opened by its path, from files that state the digest of their
  /// tensors, as those of a family (choose_bases()), of a chain and of rebase do: in its folder,
  /// in subfolders of that and, where it is the only `.gbz` of its folder, beside that.
  /// @throws Error(kNotFound) naming the link that is missing; else as open()
  static std::vector<BaseModel> beside(const ArtifactReader& delta,
                                       const ArtifactLimits& limits = {});
  /// The model that a delta expands to. @param before  its bases
  /// @throws Error(kUsage) where the delta was made with another base; as decode_tensor()
  static BaseModel on(const ArtifactReader& delta, std::span<const BaseModel> before);
  explicit BaseModel(TensorBundle tensors);
  /// @param digest  of these tensors, as digest() of another one of them gave it, which is not
  ///                checked; "": unknown
  BaseModel(TensorBundle tensors, std::string digest);

  /// SHA-256 of names, types, shapes and elements of all tensors in the order of their names, in
  /// hexadecimal: the same for a model whatever file it comes from.
  const std::string& digest() const noexcept { return digest_; }
  const TensorBundle& tensors() const noexcept { return *tensors_; }
  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;

 private:
  std::shared_ptr<const TensorBundle> tensors_;
  std::string digest_;
};

/// A model that a later one may be stored as the exact change since.
struct EarlierModel {
  BaseModel model;
  std::size_t links = 0;  ///< deltas from it back to a whole file; 0: it is whole
};
/// A model that this many links lead back from is no base; a model of a family has at most so many
/// bases.
inline constexpr std::size_t kMostLinks = 8, kMostOfFamily = 4;
struct BaseChoice {
  std::vector<std::size_t> places;  ///< of the bases, the one that saves most first
  double saved_bytes = 0;           ///< of the file, about
};
/// Which of some models an exact delta of `model` is smallest on, by samples of its tensors: the
/// best one and those that save a hundredth of the whole file more. None where a delta saves less
/// than a twentieth. Of those that save about the same the one of the fewest links, then the first.
BaseChoice choose_bases(const TensorBundle& model, std::span<const EarlierModel> others);

/// For DecodeOptions::base: the tensors of those models that the file was made with. Other models,
/// and files that are no delta, are no error.
/// @throws Error(kUsage) naming a base that is not among them
BaseSource base_source(const ArtifactReader& artifact, std::span<const BaseModel> models);

/// A file between a delta and the whole models that its chain begins with.
struct ChainLink {
  std::filesystem::path file;  ///< "": no file has these tensors
  std::string digest;          ///< of its tensors, which the delta or another link needs
  std::int64_t bytes = 0;      ///< of the file
};
/// The chain of a delta: its bases first, then theirs, whole models last. Of a file that is no
/// delta, nothing.
/// @throws Error(kCorrupt) for a loop; as BaseModel::open()
std::vector<ChainLink> chain_of(const ArtifactReader& delta, const std::filesystem::path& folder,
                                const ArtifactLimits& limits = {});

}  // namespace gbcompress
