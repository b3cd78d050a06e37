#pragma once
/// A model around a torch::nn::Module that a factory built.

#include "base/internal.h"
#include "gbcompress/model.h"

namespace GBC_INTERNAL gbcompress {

class ModuleModel : public Model {
 public:
  /// @throws Error(kFailure) for a factory's result without module or forward
  ModuleModel(std::string arch, BuiltModel built);

  std::string arch() const override { return arch_; }
  bool has_forward() const override { return true; }
  at::Tensor forward(const at::Tensor& inputs) override;
  void train(bool on) override;
  void freeze_norms() override;

 private:
  /// A flat or image-shaped batch as the module takes it.
  at::Tensor shaped(const at::Tensor& inputs) const;

  std::string arch_;
  BuiltModel built_;
};

}  // namespace gbcompress
