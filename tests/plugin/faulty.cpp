/// A plugin that loads well, and whose functions fail as GBC_TEST_FAULT says when they are called.
#include <ATen/ops/full_like.h>
#include <gbcompress/plugin.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

std::string fault() {
  const char* variable = std::getenv("GBC_TEST_FAULT");
  return variable ? variable : "";
}

/// Fills the stack.
int recurse(int depth) {
  volatile char page[4096] = {};
  page[depth % 4096] = 1;
  return depth < 0 ? 0 : recurse(depth + 1) + page[0];
}

/// What init and build have in common: ways to leave a function.
void leave(const std::string& how) {
  if (how == "throw") throw std::runtime_error("no table for\nthis size");
  if (how == "throw_torch") TORCH_CHECK(false, "no kernel in LibTorch");
  if (how == "throw_error") throw gbcompress::Error(gbcompress::Errc::kCorrupt, "no key");
  if (how == "throw_int") throw 7;
  if (how == "segv") *const_cast<volatile int*>(static_cast<int*>(nullptr)) = 1;
  if (how == "abort") std::abort();
  if (how == "recursion") recurse(0);
  if (how == "exit") std::exit(0);
}

std::optional<gbcompress::GNetSpec> init(const gbcompress::ParameterInfo& parameter,
                                         const gbcompress::GNetOptions& options) {
  if (parameter.local_name != "weight" || parameter.shape.size() != 2) return std::nullopt;
  const std::string how = fault();
  if (how.starts_with("init_")) leave(how.substr(5));
  if (how == "init_usage")
    throw gbcompress::Error(gbcompress::Errc::kUsage, "hidden must be even for faulty");
  auto spec = make_spec(parameter, {.row_dim = 0, .col_dim = 1}, options);
  if (how == "spec_sides") spec.tile_rows = spec.shape[0] + 1;
  if (how == "spec_shape") spec.shape = {3, 3};
  if (how == "spec_hidden") spec.hidden.clear();
  return spec;
}

at::Tensor build(const gbcompress::GNetSpec& spec, const at::Tensor& tiles) {
  const std::string how = fault();
  if (how.starts_with("build_")) leave(how.substr(6));
  const at::Tensor weights = place_tiles(spec, tiles);
  if (how == "nan") return weights.mul(std::nan(""));
  if (how == "nan_gradient") return weights.mul(0).sqrt().mul(0).add(weights);
  if (how == "undefined") return {};
  if (how == "turned") return weights.transpose(0, 1);
  if (how == "double") return weights.to(at::kDouble);
  if (how == "integers") return weights.to(at::kInt);
  if (how == "constant") return at::full_like(weights.detach(), 0.5);
  if (how == "changes") tiles.detach().mul_(2);
  return weights;
}

}  // namespace

GBC_PLUGIN("faulty", "0.1.0", [](gbcompress::Registrar& registrar) {
  leave(fault());
  registrar.register_gnet_type({.id = "faulty", .modules = {"Faulty"}}, &init, &build);
})
