#pragma once
/// What a stage's module holds, for code that sees no modules.

#include <gbcompress/registry.h>

#include <vector>

#include <ATen/core/Tensor.h>

namespace gbcompress {

/// What is trained, each tensor once.
std::vector<at::Tensor> trainable_of(const Stage& stage);
/// Running statistics and the like.
std::vector<at::Tensor> buffers_of(const Stage& stage);
/// Whether a batch norm in it computes with the statistics of the batch at present.
bool computes_batch_statistics(const Stage& stage);

}  // namespace gbcompress
