#pragma once
/// A tensor as a model's parameter.

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>

#include "gbcompress/model.h"

namespace gbcompress::testing {

inline NamedParameter named_weight(const std::string& name, at::Tensor tensor) {
  NamedParameter p;
  p.info.name = name;
  p.info.shape = tensor.sizes().vec();
  p.tensor = std::move(tensor);
  return p;
}

}  // namespace gbcompress::testing
