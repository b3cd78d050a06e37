/// The layer type `circulant`: a square weight each of whose rows is the row above, moved one place
/// to the right. Its n * n weights are n different numbers, and those n are what the g-nets make.
#include <ATen/ops/arange.h>
#include <gbcompress/plugin.h>

#include "circulant_model.h"

namespace {

std::optional<gbcompress::GNetSpec> spec_circulant(const gbcompress::ParameterInfo& parameter,
                                                   const gbcompress::GNetOptions& options) {
  const auto& shape = parameter.shape;
  if (parameter.local_name != "weight" || shape.size() != 2 || shape[0] != shape[1])
    return std::nullopt;
  gbcompress::ParameterInfo first_row = parameter;
  first_row.shape = {shape[0]};
  gbcompress::GNetOptions of_row = options;
  // A ratio is meant for all weights of the parameter, of which the row is one in n.
  if (options.ratio) of_row.ratio = *options.ratio / static_cast<double>(shape[0]);
  return make_spec(first_row, {.row_dim = 0, .col_dim = -1}, of_row);
}

/// weight[i][j] = first_row[(j - i) mod n]
at::Tensor build_circulant(const gbcompress::GNetSpec& spec, const at::Tensor& tiles) {
  const at::Tensor first_row = place_tiles(spec, tiles);
  const std::int64_t n = spec.shape[0];
  const at::Tensor i = at::arange(n, at::kLong);
  const at::Tensor place = i.unsqueeze(0).sub(i.unsqueeze(1)).remainder(n);
  return first_row.index_select(0, place.flatten()).view({n, n});
}

}  // namespace

GBC_PLUGIN("circulant", "0.1.0", [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "circulant", .modules = {"CirculantLinear"}}, &spec_circulant,
                               &build_circulant);
  registrar.register_model("circulant-net", &make_circulant_net);
})
