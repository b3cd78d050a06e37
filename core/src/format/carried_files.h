#pragma once
/// Which files of a folder go along with its weights.

#include <filesystem>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// Sets bundle.carried, and bundle.left_out with a note for what is of the training.
void find_carried(const std::filesystem::path& folder, TensorBundle& bundle);

}  // namespace gbcompress
