#pragma once
/// From a `.gbz` back to tensors without LibTorch: the base of a delta, and which tensors an
/// architecture has.

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

// The model that a delta is the difference from (docs/weights.md, "Deltas"). LibTorch-free.

struct TensorBundle;
struct TensorEntry;

/// Tensors by name. Copies share them.
class BaseModel {
 public:
  /// A model file or folder as open_tensors() reads it, mapped where it can be, or a `.gbz`, which
  /// is expanded into memory.
  /// @throws Error(kUsage) for a `.gbz` that is a delta itself; Error(kUnsupported) for one of
  ///         layer types that need a plugin; else as open_tensors() and ArtifactReader::open()
  static BaseModel open(const std::filesystem::path& path, const ArtifactLimits& limits = {});
  explicit BaseModel(TensorBundle tensors);

  /// SHA-256 of names, types, shapes and elements of all tensors in the order of their names, in
  /// hexadecimal: the same for a model whatever file it comes from.
  const std::string& digest() const noexcept { return digest_; }
  const TensorBundle& tensors() const noexcept { return *tensors_; }
  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;
  /// For DecodeOptions::base. @throws Error(kUsage) where the file was made with another base, or
  /// with none
  std::function<std::span<const std::byte>(const ArtifactTensor&)> source_for(
      const ArtifactReader& artifact) const;

 private:
  std::shared_ptr<const TensorBundle> tensors_;
  std::string digest_;
};

// What tensors a built-in architecture has, from its name alone: files of known architectures
// store neither names nor shapes (docs/artifact-format.md, "Architectures"). LibTorch-free.

struct LayoutEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;
  bool buffer = false;  ///< not trained
  int initial = 0;      ///< of a buffer: every element of a new model, 0 or 1
};

/// The tensors in the order of Model::tensors(): first the parameters, then the buffers.
/// @param arch  of any origin: "mlp:784-300-100-10", "lenet-300-100", "lenet5", "resnet20",
///              "resnet32:100", "resnet56", ...
/// @return nothing for another text, and for widths and sizes that the architectures refuse
std::optional<std::vector<LayoutEntry>> arch_layout(std::string_view arch);

/// Names of those architectures, without what follows a colon, sorted.
const std::vector<std::string>& layout_names();

}  // namespace gbcompress
