#pragma once
/// Inverses as the published code has them (amoudgl/distributed-dtp): activations applied once
/// more, maxima put back to their places.

#include <gbcompress/strategy.h>

#include <memory>

namespace gbcompress::dtp {

/// @return null for a layer whose inverse is the same in both forms: Linear, Conv2d, Flatten,
///         Identity
/// @throws Error(kUsage) for a layer that has no inverse in published form
std::unique_ptr<LayerInverse> published_inverse(const InverseRequest& request);

}  // namespace gbcompress::dtp
