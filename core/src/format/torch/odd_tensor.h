#pragma once
/// Tensors of a pickle that are no plain ones.

#include <string>

#include "format/torch/pickle.h"

namespace gbcompress {

/// What an object that stands for a tensor is, and the call that makes a plain one of it: "is a
/// sparse tensor; save it as .to_dense()".
std::string odd_tensor_text(const PickleValue& object);

}  // namespace gbcompress
