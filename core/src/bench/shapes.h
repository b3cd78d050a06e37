#pragma once
/// The models that the engine is measured on: tensors of their shapes with random values.

#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"

namespace gbcompress {

struct EngineShape {
  std::string name;
  std::vector<NamedParameter> tensors;
  GNetOptions gnet;
};

/// @param name  as EngineOptions::shapes
/// @throws Error(kUsage)
EngineShape make_engine_shape(const std::string& name);

}  // namespace gbcompress
