#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "gbcompress/model.h"
#include "model/batch_norms.h"

namespace gbcompress {
namespace {

/// torch.nn's default; what a normalization divides by is sqrt(variance + eps).
constexpr double kUsualEps = 1e-5;

}  // namespace

FoldedNorms fold_batch_norms(Model& model) {
  const at::NoGradGuard no_grad;
  FoldedNorms folded;
  for (const BatchNorm& norm : find_batch_norms(model.tensors())) {
    const auto member = [&](int k) {
      return &model.tensors()[norm.tensors[static_cast<std::size_t>(k)]];
    };
    NamedParameter *weight = member(BatchNorm::kWeight), *bias = member(BatchNorm::kBias);
    NamedParameter *mean = member(BatchNorm::kMean), *variance = member(BatchNorm::kVariance);
    if (variance->tensor.min().item<double>() < 0) continue;
    const auto said = model.norm_eps().find(norm.path);
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
