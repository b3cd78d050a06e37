#pragma once
/// Inverses as the published code has them (amoudgl/distributed-dtp): activations applied once
/// more, maxima put back to their places.

#include <gbcompress/strategy.h>

#include <memory>

namespace gbcompress::dtp {

/// @param type  of the layer: "Conv2d"
/// @throws Error(kUsage) for a layer that has no inverse in published form; plugins add one by
///         register_inverse("TYPE#published", factory)
std::unique_ptr<LayerInverse> published_inverse(const InverseRequest& request,
                                                const std::string& type);

}  // namespace gbcompress::dtp
