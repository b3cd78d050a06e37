#pragma once
/// Recurrent layers. The gates of a layer are matrices of their own even though a model keeps them
/// in one tensor, one below the other: each has its own tiles, and so its own g-nets.
///   weight_ih [gates * hidden, inputs]   weight_hh [gates * hidden, hidden or projection]
///   weight_hr [projection, hidden]
/// Layers are numbered, and may run backwards: weight_ih_l2, weight_ih_l2_reverse. Cells are not.

#include <gbcompress/gnet.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gbcompress::recurrent {

/// "weight_hh_l12_reverse" without its layer and direction: "weight_hh"; cells have neither.
/// Empty where it is no such name.
inline std::string_view matrix_of(std::string_view name, bool cell) {
  if (cell) return name;
  constexpr std::string_view kReverse = "_reverse";
  if (name.ends_with(kReverse)) name.remove_suffix(kReverse.size());
  const std::size_t layer = name.rfind("_l");
  if (layer == std::string_view::npos || layer + 2 == name.size()) return {};
  const std::string_view digits = name.substr(layer + 2);
  const bool number =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? name.substr(0, layer) : std::string_view{};
}

inline std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) {
  if (parameter.shape.size() != 2) return std::nullopt;
  const std::string_view module = parameter.module_type;
  const bool lstm = module.starts_with("LSTM");
  const std::int64_t gates = lstm ? 4 : module.starts_with("GRU") ? 3 : 1;
  const std::string_view matrix = matrix_of(parameter.local_name, module.ends_with("Cell"));
  MatrixView view{.row_dim = 0, .col_dim = 1};
  if (matrix == "weight_ih" || matrix == "weight_hh") {
    if (parameter.shape[0] % gates != 0) return std::nullopt;
    view.row_splits = gates;
  } else if (matrix != "weight_hr" || module != "LSTM") {
    return std::nullopt;
  }
  return make_spec(parameter, view, options);
}

/// Modules whose parameters it takes.
inline std::vector<std::string> modules() {
  return {"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"};
}

}  // namespace gbcompress::recurrent
