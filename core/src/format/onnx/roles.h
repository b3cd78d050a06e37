#pragma once
/// What the graph says about its tensors: which ones weight-consuming operators take, and how their
/// elements lie.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/onnx/model.h"
#include "format/tensor_hint.h"

namespace GBC_INTERNAL gbcompress {
namespace onnx {

/// One for each tensor of the model.
std::vector<TensorHint> roles(const ModelFile& model, const std::string& label);

}  // namespace onnx
}  // namespace gbcompress
