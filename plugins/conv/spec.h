#pragma once
/// Convolutions of 1 to 3 dimensions. Tiles cover outputs and inputs; all kernel positions of a
/// pair are inside one tile.
///   Conv           [out, in / groups, k...]   rows are dimension 0
///   ConvTranspose  [in, out / groups, k...]   rows are dimension 1

#include <gbcompress/gnet.h>

#include <optional>
#include <string>
#include <vector>

namespace gbcompress::conv {

inline std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) {
  const std::size_t rank = parameter.shape.size();
  if (parameter.local_name != "weight" || rank < 3 || rank > 5) return std::nullopt;
  const bool transposed = parameter.module_type.starts_with("ConvTranspose");
  const MatrixView view{.row_dim = transposed ? 1 : 0, .col_dim = transposed ? 0 : 1};
  return make_spec(parameter, view, options);
}

/// Modules whose parameters it takes.
inline std::vector<std::string> modules() {
  return {"Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};
}

}  // namespace gbcompress::conv
