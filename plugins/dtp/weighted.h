#pragma once
/// Inverses that have weights: of Linear, Conv2d and batch norms.

#include <gbcompress/strategy.h>

#include <memory>

namespace gbcompress::dtp {

/// Transposes to be learned: affine, under the statistics of the call.
/// @return null for another layer
std::unique_ptr<LayerInverse> weighted_inverse(const InverseRequest& request);

/// As the published code has them: a transposed convolution has a bias always, a BatchNorm2d is
/// inverted by a fresh one.
/// @return null for another layer
std::unique_ptr<LayerInverse> published_weighted_inverse(const InverseRequest& request);

}  // namespace gbcompress::dtp
