#include "model/norm_eps.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <optional>

namespace gbcompress {
namespace {

/// Argument of aten::batch_norm that eps is.
constexpr std::size_t kEpsArgument = 7;

template <typename Norm>
bool find(torch::nn::Module& module, const std::string& path, std::map<std::string, double>& eps) {
  const auto* norm = module.as<Norm>();
  if (norm) eps[path] = norm->options.eps();
  return norm != nullptr;
}

/// Of the one call of batch_norm in a module's own forward, where it is one constant.
std::optional<double> traced_eps(const torch::jit::Module& module) {
  const auto forward = module.find_method("forward");
  if (!forward) return std::nullopt;
  std::optional<double> eps;
  for (const torch::jit::Node* node : forward->graph()->nodes()) {
    if (node->kind() != at::aten::batch_norm || node->inputs().size() <= kEpsArgument) continue;
    const auto value = torch::jit::toIValue(node->inputs()[kEpsArgument]);
    if (!value || !value->isDouble() || eps) return std::nullopt;
    eps = value->toDouble();
  }
  return eps;
}

void visit(const torch::jit::Module& module, const std::string& path,
           std::map<std::string, double>& found) {
  if (module.hasattr("running_var")) {
    std::optional<double> eps;
    if (const auto constant = module.type()->findConstant("eps"); constant && constant->isDouble())
      eps = constant->toDouble();
    else if (module.hasattr("eps") && module.attr("eps").isDouble())
      eps = module.attr("eps").toDouble();
    else
      eps = traced_eps(module);
    if (eps) found[path] = *eps;
  }
  for (const auto& child : module.named_children())
    visit(child.value, path.empty() ? child.name : path + "." + child.name, found);
}

}  // namespace

std::map<std::string, double> norm_eps(torch::nn::Module& module) {
  using namespace torch::nn;
  std::map<std::string, double> eps;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    Module& one = *item.value();
    find<BatchNorm1dImpl>(one, item.key(), eps) || find<BatchNorm2dImpl>(one, item.key(), eps) ||
        find<BatchNorm3dImpl>(one, item.key(), eps) ||
        find<InstanceNorm1dImpl>(one, item.key(), eps) ||
        find<InstanceNorm2dImpl>(one, item.key(), eps) ||
        find<InstanceNorm3dImpl>(one, item.key(), eps);
  }
  return eps;
}

std::map<std::string, double> norm_eps(const torch::jit::Module& module) {
  std::map<std::string, double> eps;
  visit(module, "", eps);
  return eps;
}

}  // namespace gbcompress
