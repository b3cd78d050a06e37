/// The layer type @NAME@: how the weights of modules of type @CAMEL@ are cut into tiles.
#include <gbcompress/plugin.h>

namespace {

/// Which parameters are generated, and how: here every matrix called "weight", rows are outputs.
/// Parameters without a specification stay as they are.
std::optional<gbcompress::GNetSpec> spec_ @NAME
    @(const gbcompress::ParameterInfo& parameter, const gbcompress::GNetOptions& options) {
  if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
  return make_spec(parameter, {.row_dim = 0, .col_dim = 1}, options);
}

/// The parameter from its tiles, in differentiable LibTorch operations. A type whose parameter is
/// just its tiles side by side needs no such function.
at::Tensor build_ @NAME @(const gbcompress::GNetSpec& spec, const at::Tensor& tiles) {
  return place_tiles(spec, tiles);
}

}  // namespace

GBC_PLUGIN("@NAME@", "0.1.0", [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "@NAME@", .modules = {"@CAMEL@"}}, &spec_ @NAME @,
                               &build_ @NAME @);
})
