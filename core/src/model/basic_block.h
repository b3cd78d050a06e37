#pragma once
/// The residual block of CIFAR ResNets.

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

namespace gbcompress {

/// 3x3, without bias, so that `stride` 1 keeps rows and columns.
torch::nn::Conv2d conv3x3(std::int64_t inputs, std::int64_t outputs, std::int64_t stride);

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)); with more outputs than inputs every second
/// row and column.
struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(std::int64_t inputs, std::int64_t outputs);
  at::Tensor forward(const at::Tensor& x);
  /// Option A: every second pixel, and zero planes in equal number before and behind.
  at::Tensor shortcut(const at::Tensor& x) const;

  std::int64_t extra;  ///< outputs without an input
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d bn2;
  /// The same layers but for the last activation, one after another.
  torch::nn::Sequential body;
};
TORCH_MODULE(BasicBlock);

}  // namespace gbcompress
