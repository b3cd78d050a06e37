#pragma once
/// First values of g-nets. No LibTorch.

#include <cstdint>
#include <span>
#include <string>

#include "base/internal.h"
#include "gbcompress/gnet.h"

namespace GBC_INTERNAL gbcompress {

/// MLPs: weights ~ N(0, 0.1), biases 0; stochastic ones N(0, 0.01), output biases (0.01, ln 0.02);
/// trained codes N(0, 1); products so that the weights begin with the original deviation. A value
/// depends on (seed, name, its index in theta) alone.
/// @param theta  [tiles, shape.parameters()]
void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      std::span<float> theta);

}  // namespace gbcompress
