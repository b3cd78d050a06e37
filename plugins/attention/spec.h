#pragma once
/// Attention. Query, key and value are three matrices even where a model keeps them in one tensor:
/// each has its own tiles, and so its own g-nets.

#include <gbcompress/gnet.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gbcompress::attention {

inline bool ends_with_name(std::string_view path, std::string_view name) {
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

inline std::optional<MatrixView> view_of(const ParameterInfo& parameter) {
  const auto& name = parameter.local_name;
  if (parameter.shape.size() != 2) return std::nullopt;
  const std::int64_t first = parameter.shape[0], second = parameter.shape[1];
  if (parameter.module_type == "Conv1D") {  // GPT-2's linear layer keeps its weight as [in, out]
    if (name != "weight") return std::nullopt;
    const bool fused = ends_with_name(parameter.module_path, "c_attn") && second == 3 * first;
    return MatrixView{.row_dim = 1, .col_dim = 0, .row_splits = fused ? 3 : 1};
  }
  if (name == "in_proj_weight" && first == 3 * second)
    return MatrixView{.row_dim = 0, .col_dim = 1, .row_splits = 3};
  if (name == "weight" || name == "in_proj_weight" || name == "q_proj_weight" ||
      name == "k_proj_weight" || name == "v_proj_weight")
    return MatrixView{.row_dim = 0, .col_dim = 1};
  return std::nullopt;
}

inline std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) {
  const auto view = view_of(parameter);
  if (!view) return std::nullopt;
  return make_spec(parameter, *view, options);
}

/// Modules whose parameters it takes.
inline std::vector<std::string> modules() {
  return {"MultiheadAttention", "NonDynamicallyQuantizableLinear", "Conv1D"};
}

}  // namespace gbcompress::attention
