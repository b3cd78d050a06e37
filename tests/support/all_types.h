#pragma once
/// The layer types of the tests and the program's own architectures in one registry.

#include "model/builtin.h"
#include "support/layer_types.h"

namespace gbcompress {

inline Registry all_types() {
  Registry types = test_registry();
  types.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
  return types;
}

}  // namespace gbcompress
