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

}  // namespace gbcompress
