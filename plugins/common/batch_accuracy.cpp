#include "batch_accuracy.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace gbcompress {

void BatchAccuracy::add_to(std::map<std::string, double>& measured) const {
  measured["train_accuracy_percent"] = top1;
  measured["train_top5_percent"] = top5;
}

BatchAccuracy batch_accuracy(const at::Tensor& scores, const at::Tensor& targets) {
  const c10::NoGradGuard no_grad;
  if (targets.is_floating_point() || targets.numel() == 0) return {};
  const at::Tensor rows = scores.detach().flatten(0, -2);
  const std::int64_t classes = rows.size(1);
  const at::Tensor best = std::get<1>(rows.topk(std::min<std::int64_t>(5, classes), 1));
  const at::Tensor right = best.eq(targets.flatten().unsqueeze(1)).to(at::kFloat);
  const double count = static_cast<double>(rows.size(0)) / 100;
  return {right.select(1, 0).sum().item<double>() / count, right.sum().item<double>() / count};
}

}  // namespace gbcompress
