#pragma once
/// TorchScript files. They are code: open only what you trust.

#include "gbcompress/model.h"

namespace gbcompress {

/// @throws Error(kCorrupt) where LibTorch cannot load it; Error(kUnsupported) for a frozen one
///         without parameters
std::unique_ptr<Model> open_torchscript(const std::filesystem::path& file);

}  // namespace gbcompress
