#pragma once
/// Embedding tables: weight [entries, width], rows are entries. A table is looked up by numbers
/// that have no order, so that neighboring rows need not be alike, and a g-net finds less to learn
/// than in other layers: it gets one only where a rule asks.

#include <gbcompress/gnet.h>

#include <optional>
#include <string>
#include <vector>

namespace gbcompress::embedding {

inline std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) {
  if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
  return make_spec(parameter, {.row_dim = 0, .col_dim = 1}, options);
}

/// Modules whose parameters it takes, where a rule names it.
inline std::vector<std::string> modules() { return {"Embedding", "EmbeddingBag"}; }

}  // namespace gbcompress::embedding
