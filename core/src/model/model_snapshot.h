#pragma once
/// The values of a model at one time.

#include <ATen/core/Tensor.h>

#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// Copies of all tensors of a model, in its order. Copies of a snapshot share them.
class ModelSnapshot {
 public:
  explicit ModelSnapshot(const Model& model);
  /// @param model  the one of the constructor, or one with the same tensors
  void restore(Model& model) const;
  const std::vector<at::Tensor>& values() const { return values_; }

 private:
  std::vector<at::Tensor> values_;
  std::vector<double> deviations_;  ///< ParameterInfo::std
};

}  // namespace gbcompress
