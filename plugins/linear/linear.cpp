/// Fully connected layers: weight [out, in], rows are outputs.
#include <gbcompress/plugin.h>

namespace {

std::optional<gbcompress::GNetPlan> plan_linear(const gbcompress::ParameterInfo& parameter,
                                                const gbcompress::GNetOptions& options) {
  if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
  return make_plan(parameter, {.row_dim = 0, .col_dim = 1}, options);
}

}  // namespace

GBC_PLUGIN("linear", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_gnet_type({.id = "linear", .modules = {"Linear"}}, &plan_linear);
})
