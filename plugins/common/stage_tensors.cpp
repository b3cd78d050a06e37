#include "stage_tensors.h"

#include <torch/nn/module.h>

namespace gbcompress {

std::vector<at::Tensor> trainable_of(const Stage& stage) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& p : stage.module->parameters())
    if (p.requires_grad()) result.push_back(p);
  return result;
}

std::vector<at::Tensor> buffers_of(const Stage& stage) { return stage.module->buffers(); }

bool computes_batch_statistics(const Stage& stage) {
  for (const auto& module : stage.module->modules())
    if (module->name().find("BatchNorm") != std::string::npos &&
        (module->is_training() || module->buffers(/*recurse=*/false).empty()))
      return true;
  return false;
}

}  // namespace gbcompress
