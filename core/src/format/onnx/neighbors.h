#pragma once
/// What the nodes around a weight tell about its inputs and outputs.

#include <vector>

#include "base/internal.h"
#include "format/onnx/affine.h"
#include "format/onnx/model.h"
#include "format/onnx/roles.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// Adds to the hints of weights what lies before and behind them.
/// @param uses  of weight_uses()
void look_around(const ModelFile& model, const std::vector<WeightUse>& uses,
                 const PayloadBytes& payload, std::vector<TensorHint>& hints);

}  // namespace onnx
}  // namespace gbcompress
