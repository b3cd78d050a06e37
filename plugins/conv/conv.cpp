/// Convolutions of 1 to 3 dimensions. Tiles cover outputs and inputs; all kernel positions of a
/// pair are inside one tile.
///   Conv           [out, in / groups, k...]   rows are dimension 0
///   ConvTranspose  [in, out / groups, k...]   rows are dimension 1
#include <gbcompress/plugin.h>

namespace {

std::optional<gbcompress::GNetPlan> plan_conv(const gbcompress::ParameterInfo& parameter,
                                              const gbcompress::GNetOptions& options) {
  const std::size_t rank = parameter.shape.size();
  if (parameter.local_name != "weight" || rank < 3 || rank > 5) return std::nullopt;
  const bool transposed = parameter.module_type.starts_with("ConvTranspose");
  const gbcompress::MatrixView view{.row_dim = transposed ? 1 : 0, .col_dim = transposed ? 0 : 1};
  return make_plan(parameter, view, options);
}

}  // namespace

GBC_PLUGIN("conv", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "conv",
                                .modules = {"Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
                                            "ConvTranspose2d", "ConvTranspose3d"}},
                               &plan_conv);
})
