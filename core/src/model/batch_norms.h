#pragma once
/// Which tensors are batch norms.

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// Four floating-point vectors of one module, none of them tied.
struct BatchNorm {
  enum Vector { kWeight, kBias, kMean, kVariance };
  std::string path;                    ///< the module's
  std::array<std::size_t, 4> tensors;  ///< indices, in the order above
};
/// In the order of their paths.
std::vector<BatchNorm> find_batch_norms(const std::vector<NamedParameter>& tensors);

}  // namespace gbcompress
