#include "batch_accuracy.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/train.h>

namespace gbcompress {

void BatchAccuracy::add_to(std::map<std::string, double>& measured) const {
  measured["train_accuracy_percent"] = top1;
  measured["train_top5_percent"] = top5;
}

BatchAccuracy batch_accuracy(const at::Tensor& scores, const at::Tensor& targets) {
  const c10::NoGradGuard no_grad;
  if (targets.is_floating_point() || targets.numel() == 0) return {};
  const at::Tensor rows = scores.detach().flatten(0, -2), labels = targets.flatten();
  const double count = static_cast<double>(rows.size(0)) / 100;
  const auto percent = [&](const at::Tensor& hits) {
    return static_cast<double>(hits.sum().item<std::int64_t>()) / count;
  };
  return {percent(rows.argmax(1).eq(labels)), percent(in_top5(rows, labels))};
}

}  // namespace gbcompress
