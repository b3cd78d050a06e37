/// A sound plugin file whose registration does what GBC_TEST_BEHAVIOUR says.
#include <gbcompress/plugin.h>

#include <cstdlib>

namespace {

std::optional<gbcompress::GNetSpec> spec_row(const gbcompress::ParameterInfo& parameter,
                                             const gbcompress::GNetOptions& options) {
  return make_spec(parameter, {.row_dim = 0, .col_dim = 1}, options);
}

void behave(gbcompress::Registrar& registrar) {
  const char* variable = std::getenv("GBC_TEST_BEHAVIOUR");
  const std::string behaviour = variable ? variable : "";
  registrar.register_gnet_type("Row", &spec_row);
  if (behaviour == "throw") throw std::runtime_error("no kernel for this machine");
  if (behaviour == "throw_torch") TORCH_CHECK(false, "no kernel in LibTorch");
  if (behaviour == "throw_int") throw 7;
  if (behaviour == "null") registrar.register_gnet_type(nullptr);
  if (behaviour == "same_id")
    registrar.register_gnet_type({.id = "linear", .modules = {"Other"}}, &spec_row);
  if (behaviour == "same_module")
    registrar.register_gnet_type({.id = "other", .modules = {"Linear"}}, &spec_row);
  if (behaviour == "swallow") {
    try {
      registrar.register_gnet_type("Linear", &spec_row);
    } catch (...) {
    }
  }
}

}  // namespace

GBC_PLUGIN("misbehave", "0.1.0", [](gbcompress::Registrar& registrar) { behave(registrar); })
