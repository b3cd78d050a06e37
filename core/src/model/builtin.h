#pragma once
/// Factories of the built-in architectures; names are those of Python's state dicts.

#include "gbcompress/registry.h"
#include "gbcompress/strategy.h"

namespace gbcompress {

/// torch.nn.Sequential of Linear and ReLU: "0.weight", "2.weight", ... Widths from the options
/// ("784-300-10") or from the weights' own shapes, whatever their numbers (dropout may stand
/// between). Input [widths.front()].
/// @throws Error(kUsage) without widths, with one outside 1 to 1,048,576, or above 2^30 weights in
///         options; Error(kShapeMismatch) for weights that are no such net
BuiltModel build_mlp(const ModelRequest& request);

/// mlp:784-300-100-10. (LeCun et al., "Gradient-based learning applied to document recognition",
/// 1998.)
BuiltModel build_lenet_300_100(const ModelRequest& request);

/// conv1 (20, 5x5), max-pool, conv2 (50, 5x5), max-pool, fc1 (500), fc2 (10), ReLU behind all but
/// the last: the widths of Caffe's LeNet under the names of PyTorch's early MNIST example. Input
/// [1, 28, 28].
BuiltModel build_lenet5(const ModelRequest& request);

/// CIFAR ResNet of He et al. (arXiv 1512.03385, section 4.2) with parameter-free shortcuts ("option
/// A"), 6 n + 2 layers: conv1, bn1, layer1.0.conv1, ..., linear. Input [3, 32, 32]. Classes from
/// the options ("resnet20:100"), else from the weights, else 10.
/// @param blocks  n, of each of the three stages
BuiltModel build_cifar_resnet(const ModelRequest& request, int blocks);

/// The way back through the residual blocks of those, for register_inverse("BasicBlock"): through
/// both branches, added up. @throws Error(kFailure) for another layer
std::unique_ptr<LayerInverse> invert_basic_block(const InverseRequest& request);
/// As the code of Ernoult et al. has it, for "BasicBlock#published": the mirrored block, whose
/// activations are applied once more.
std::unique_ptr<LayerInverse> invert_basic_block_as_published(const InverseRequest& request);

}  // namespace gbcompress
