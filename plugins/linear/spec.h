#pragma once
/// Fully connected layers: weight [out, in], rows are outputs.

#include <gbcompress/gnet.h>

#include <optional>
#include <string>
#include <vector>

namespace gbcompress::linear {

inline std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) {
  if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
  return make_spec(parameter, {.row_dim = 0, .col_dim = 1}, options);
}

/// Modules whose parameters it takes.
inline std::vector<std::string> modules() { return {"Linear"}; }

}  // namespace gbcompress::linear
