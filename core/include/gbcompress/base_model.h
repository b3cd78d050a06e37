#pragma once
/// The model that a delta is the difference from (docs/weights.md, "Deltas"). LibTorch-free.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gbcompress/artifact.h"
#include "gbcompress/export.h"

namespace GBC_API gbcompress {

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

}  // namespace gbcompress
