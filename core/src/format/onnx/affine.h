#pragma once
/// Integers of quantized models that stand for real numbers, as the graph says.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "format/container.h"
#include "format/onnx/model.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// The bytes of a tensor's payload.
using PayloadBytes = std::function<std::span<const std::byte>(const Tensor&)>;

/// For each tensor of type INT8 or UINT8 that only operators take which read it as
/// (integer - zero) * scale with constant scales and zeros, these. Operators without a scale of the
/// weights (MatMulInteger) have 1.
std::vector<std::optional<Affine>> affine_weights(const ModelFile& model,
                                                  const PayloadBytes& payload);

}  // namespace onnx
}  // namespace gbcompress
