#pragma once
/// The layers of a stage, each with its way back.

#include <gbcompress/registry.h>
#include <gbcompress/strategy.h>

namespace gbcompress::dtp {

/// The inverses of a stage's layers, in the order of the forward pass.
using Chain = std::vector<std::unique_ptr<LayerInverse>>;

/// One inverse for each layer of the stage, nested Sequentials taken apart.
/// @param input  of the stage for one sample, [1, ...]
/// @param seed   of the first weights
/// @throws Error(kUsage) naming the layer that has no inverse and what to register
Chain make_chain(const Stage& stage, at::Tensor input, std::uint64_t seed);

}  // namespace gbcompress::dtp
