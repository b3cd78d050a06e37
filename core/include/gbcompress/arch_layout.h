#pragma once
/// What tensors a built-in architecture has, from its name alone: files of known architectures
/// store neither names nor shapes (docs/reference/artifact-format.md, "Architectures"). No
/// LibTorch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

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
