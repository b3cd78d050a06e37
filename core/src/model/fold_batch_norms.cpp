#include <ATen/ATen.h>

#include <map>

#include "gbcompress/model.h"

namespace gbcompress {
namespace {

/// torch.nn's default; what a normalisation divides by is sqrt(variance + eps).
constexpr double kUsualEps = 1e-5;

bool is_vector(const NamedParameter* p) {
  return p && p->tied_to.empty() && p->tensor.is_floating_point() && p->tensor.dim() == 1;
}

}  // namespace

FoldedNorms fold_batch_norms(Model& model) {
  const at::NoGradGuard no_grad;
  std::map<std::string, std::map<std::string, NamedParameter*>> modules;
  for (NamedParameter& p : model.tensors()) modules[p.info.module_path][p.info.local_name] = &p;
  FoldedNorms folded;
  for (auto& [path, members] : modules) {
    NamedParameter *weight = members["weight"], *bias = members["bias"];
    NamedParameter *mean = members["running_mean"], *variance = members["running_var"];
    if (!is_vector(weight) || !is_vector(bias) || !is_vector(mean) || !is_vector(variance) ||
        variance->tensor.min().item<double>() < 0)
      continue;
    const auto said = model.norm_eps().find(path);
    const double eps = said == model.norm_eps().end() ? kUsualEps : said->second;
    folded.eps_unknown += said == model.norm_eps().end();
    const at::Tensor scale =
        weight->tensor.to(at::kDouble) / (variance->tensor.to(at::kDouble) + eps).sqrt();
    bias->tensor.copy_(bias->tensor.to(at::kDouble) - mean->tensor.to(at::kDouble) * scale);
    weight->tensor.copy_(scale);
    mean->tensor.zero_();
    variance->tensor.fill_(1 - eps);
    for (NamedParameter* p : {weight, bias}) p->info.std = p->tensor.std().item<double>();
    ++folded.all;
  }
  return folded;
}

}  // namespace gbcompress
