#pragma once
/// Pixels as numbers.

#include <cstddef>
#include <span>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

struct Normalisation {
  std::vector<double> mean, std;  ///< one for each channel
};

/// The user's options, completed by `habit`.
/// @throws Error(kUsage) for another number of channels, a deviation not above 0, no finite number
Normalisation normalisation(const DataOptions& options, const Normalisation& habit);

/// (pixels / brightest - mean) / std, float32.
/// @param shape  [n, channels, ...]; its product is pixels.size()
at::Tensor to_inputs(std::span<const std::byte> pixels, const std::vector<std::int64_t>& shape,
                     double brightest, const Normalisation& by);

/// Class numbers as int64 [n].
at::Tensor to_targets(std::span<const std::byte> labels);

}  // namespace gbcompress
