#pragma once
/// The layers of a stage, and the way back through them.

#include <gbcompress/registry.h>
#include <gbcompress/strategy.h>

namespace gbcompress::dtp {

/// Which form the inverses of layers have.
enum class InverseForm : std::uint8_t {
  kTranspose,  ///< slopes and places of the call: an affine way back
  kPublished,  ///< published.h
};

/// Of layers that only arrange values, Flatten and Identity; null for another one.
std::unique_ptr<LayerInverse> reshaping_inverse(const InverseRequest& request);

/// The way back through all layers of a stage, nested Sequentials taken apart.
/// @param input  of the stage for one sample, [1, ...]
/// @param seed   of the first weights
/// @throws Error(kUsage) naming the layer that has no inverse and what to register
std::unique_ptr<LayerInverse> invert_stage(const Stage& stage, const at::Tensor& input,
                                           std::uint64_t seed, InverseForm form);

}  // namespace gbcompress::dtp
