#pragma once
/// What `compare` prints, with and without LibTorch.

#include <filesystem>
#include <optional>
#include <string>

#include "command.h"
#include "gbcompress/artifact.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

/// One of the two files.
struct Compared {
  std::filesystem::path file;
  std::string format;
  TensorSource tensors;
};

/// Opens both without LibTorch. Where one of them is a `.gbz`, the other's batch norms are
/// rewritten as compressing rewrites them.
struct ComparedPair {
  Compared a, b;
};
/// @return nothing where it takes LibTorch: TorchScript, and layer types of plugins
/// @throws as open_tensors() and ArtifactReader
std::optional<ComparedPair> open_pair(const Arguments& arguments);

/// What both answer to data; the metric under its name and in words.
struct ComparedOutputs {
  std::string metric, heading;
  std::string unit;  ///< "%", "nats", or "" where there is none
  double a = 0, b = 0, agreement = 0, divergence = 0, largest_difference = 0;
  std::int64_t samples = 0;
  std::string data;
};

/// @return the exit status
int print_comparison(const Arguments& arguments, const ComparedPair& pair,
                     const std::optional<ComparedOutputs>& outputs = {});

}  // namespace gbcompress::cli
