#pragma once
/// Layer types for tests, registered by the program instead of a plugin.

#include <ATen/ATen.h>

#include "gbcompress/registry.h"

namespace gbcompress {

/// "linear" for Linear and Conv2d weights; "symmetric" for modules of type Symmetric, whose weight
/// is tiles + transposed tiles (a build of its own).
inline Registry test_registry() {
  Registry registry;
  registry.stage("test", [](Registrar& r) {
    const SpecFunction spec = [](const ParameterInfo& p,
                                 const GNetOptions& o) -> std::optional<GNetSpec> {
      if (p.local_name != "weight") return std::nullopt;
      return make_spec(p, {}, o);
    };
    r.register_gnet_type({"linear", {"Linear", "Conv2d"}}, spec);
    r.register_gnet_type({"symmetric", {"Symmetric"}}, spec,
                         [](const GNetSpec& p, const at::Tensor& tiles) {
                           const at::Tensor half = place_tiles(p, tiles);
                           return half + half.t();
                         });
  });
  return registry;
}

}  // namespace gbcompress
