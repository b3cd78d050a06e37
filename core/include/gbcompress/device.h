#pragma once
/// Where a model computes: the processor, a GPU, or another device of LibTorch.

#include <ATen/core/Tensor.h>

#include <string>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class Model;
struct Data;

/// @param name  "cpu", "cuda", "cuda:N", or a device that a plugin has registered with LibTorch
/// @throws Error(kUsage) for another name; for a GPU that this LibTorch or this machine does not
///         have, saying which of them. To be called before anything else asks LibTorch for GPUs
at::Device device_named(const std::string& name);

/// The model's tensors, in place: who holds one of them holds the moved one. Gradients are dropped.
/// @throws Error(kLimit) if the device lacks the memory
void move_to(Model& model, at::Device device);
/// Batches of both splits.
void move_to(Data& data, at::Device device);

}  // namespace gbcompress
