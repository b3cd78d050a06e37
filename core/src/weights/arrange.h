#pragma once
/// Tensors of an architecture whose layout follows from its name.

#include <string>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "gbcompress/weights.h"

namespace GBC_INTERNAL gbcompress {

/// Whether the bundle has the tensors of that architecture and no others, of the same shapes.
bool fits_layout(const TensorBundle& weights, const std::string& arch);

/// The tensors in the order of options.arch. Where a size or an error is asked, batch norms are
/// rewritten to the same function of statistics 0 and 1 - eps, so that two vectors of each are
/// constant: those of float32 whose channels are alive, for the scale of a dead one would explode,
/// and none of whose tensors options.exact keeps.
/// @param weights  fits_layout()
TensorBundle arranged(const TensorBundle& weights, const WeightsOptions& options);

}  // namespace gbcompress
