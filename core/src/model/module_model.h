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

/// What `arch` ("name" or "name:options") builds for these weights.
/// @throws Error(kUsage) for an unknown name; what the factory throws, other exceptions as
///         Error(kFailure)
std::unique_ptr<Model> build_for(const std::string& arch, const std::vector<ParameterInfo>& weights,
                                 const Registry& registry);

}  // namespace gbcompress
