#pragma once
/// A model with the weights of a file, whatever the file is.

#include <filesystem>
#include <memory>
#include <string>

#include "gbcompress/model.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

struct WeightsOf {
  std::filesystem::path file;   ///< a model, or a `.gbz`
  std::string arch;             ///< "" if the file names its own
  std::filesystem::path model;  ///< whose forward pass a `.gbz` from TorchScript takes, or ""
  OpenOptions options;
};

/// @throws Error(kUsage) for a `.gbz` that knows no forward pass and is given none; as open_model()
///         and ArtifactReader
std::unique_ptr<Model> open_weights(const WeightsOf& wanted, const Registry& registry);

}  // namespace gbcompress::cli
