#pragma once
/// What batch norms add to the variance, where that can be read.

#include <map>
#include <string>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace gbcompress {

/// By module path; of LibTorch's own batch and instance norms.
std::map<std::string, double> norm_eps(torch::nn::Module& module);
/// Of modules with running statistics: the constant `eps` of scripted ones, the number that traced
/// ones call batch_norm with.
std::map<std::string, double> norm_eps(const torch::jit::Module& module);

}  // namespace gbcompress
