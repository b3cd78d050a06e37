#pragma once
/// The residual block of ResNet-18 and ResNet-34, and the way back through it.

#include <gbcompress/strategy.h>
#include <torch/nn/modules/container/sequential.h>

namespace gbcompress::nets {

/// relu(body(x) + shortcut(x)); the body is conv 3x3, norm, ReLU, conv 3x3, norm, the shortcut a
/// 1x1 convolution and a norm where channels or the stride change, else the identity. Without norms
/// the places of the norms are identities. (He et al., arXiv 1512.03385, option B.)
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, bool norms);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Sequential body, shortcut;
};
TORCH_MODULE(ResidualBlock);

/// For register_inverse("ResidualBlock"): the sum goes back through both branches.
std::unique_ptr<LayerInverse> invert_residual_block(const InverseRequest& request);
/// For "ResidualBlock#published": the last activation goes back by being applied once more.
std::unique_ptr<LayerInverse> invert_residual_block_as_published(const InverseRequest& request);

}  // namespace gbcompress::nets
