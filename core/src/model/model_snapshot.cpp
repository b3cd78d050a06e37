#include "model/model_snapshot.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace gbcompress {

ModelSnapshot::ModelSnapshot(const Model& model) {
  for (const NamedParameter& p : model.tensors()) {
    values_.push_back(p.tensor.detach().clone());
    deviations_.push_back(p.info.std);
  }
}

void ModelSnapshot::restore(Model& model) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    model.tensors()[i].tensor.copy_(values_[i]);
    model.tensors()[i].info.std = deviations_[i];
  }
}

}  // namespace gbcompress
