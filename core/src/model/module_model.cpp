#include "model/module_model.h"

#include <torch/torch.h>

#include "gbcompress/error.h"
#include "model/messages.h"
#include "model/norm_eps.h"

namespace gbcompress {

Model::~Model() = default;

void Model::take_exit(std::int64_t number) {
  const auto count = static_cast<std::int64_t>(exits_.size());
  if (number < 0 || number > count)
    throw Error(Errc::kUsage, "there is no exit " + std::to_string(number) + "; this model has " +
                                  (count == 0 ? "none" : "exits 1 to " + std::to_string(count)));
  exit_ = static_cast<std::size_t>(number);
}

at::Tensor Model::mask(const at::Tensor& inputs) const {
  return mask_ ? mask_(inputs) : at::Tensor();
}

namespace {

template <typename Link>
at::Tensor apply_link(const Link& link, const at::Tensor& x, const at::Tensor& mask) {
  return link.forward_masked && mask.defined() ? link.forward_masked(x, mask) : link.forward(x);
}

}  // namespace

at::Tensor apply(const Stage& stage, const at::Tensor& x, const at::Tensor& mask) {
  return apply_link(stage, x, mask);
}
at::Tensor apply(const Exit& exit, const at::Tensor& x, const at::Tensor& mask) {
  return apply_link(exit, x, mask);
}

ModuleModel::ModuleModel(std::string arch, BuiltModel built)
    : arch_(std::move(arch)), built_(std::move(built)) {
  if (!built_.module || !built_.forward)
    throw Error(Errc::kFailure, "the factory of architecture " + printable(arch_) +
                                    " returned no module or no forward function; this is a defect "
                                    "of the plugin that provides it");
  tensors_ = named_parameters(*built_.module);
  norm_eps_ = gbcompress::norm_eps(*built_.module);
  stages_ = built_.stages;
  input_shape_ = built_.input_shape;
  for (const Stage& stage : stages_)
    if (!stage.module || !stage.forward)
      throw Error(Errc::kFailure, "the factory of architecture " + printable(arch_) +
                                      " returned a stage without module or forward function; this "
                                      "is a defect of the plugin that provides it");
  mask_ = built_.mask;
  exits_ = built_.exits;
  for (const Exit& exit : exits_)
    if (!exit.forward || exit.stages < 1 || exit.stages > stages_.size())
      throw Error(Errc::kFailure, "the factory of architecture " + printable(arch_) +
                                      " returned an early exit without forward function or behind "
                                      "stages it does not have; this is a defect of the plugin "
                                      "that provides it");
  if (!stages_.empty())
    stages_.front().forward = [this, first = stages_.front().forward](const at::Tensor& inputs) {
      return first(shaped(inputs));
    };
}

at::Tensor ModuleModel::shaped(const at::Tensor& inputs) const {
  if (inputs.dim() == 0 || built_.input_shape.empty()) return inputs;
  std::vector<std::int64_t> wanted = {inputs.size(0)};
  wanted.insert(wanted.end(), built_.input_shape.begin(), built_.input_shape.end());
  if (c10::multiply_integers(wanted) != inputs.numel())
    throw Error(Errc::kShapeMismatch, "each input of " + printable(arch_) + " has the shape " +
                                          shape_text(built_.input_shape) + ", the data has " +
                                          shape_text(inputs.sizes().slice(1)));
  return inputs.reshape(wanted);
}

at::Tensor ModuleModel::forward(const at::Tensor& inputs) {
  const at::Tensor batch = shaped(inputs);
  try {
    if (exit_ == 0) return built_.forward(batch);
    const Exit& exit = exits_[exit_ - 1];
    const at::Tensor padding = mask(batch);
    at::Tensor x = batch;
    for (std::size_t i = 0; i < exit.stages; ++i) x = apply(built_.stages[i], x, padding);
    return apply(exit, x, padding);
  } catch (const c10::Error& error) {
    throw Error(Errc::kShapeMismatch, printable(arch_) + " cannot take a batch of shape " +
                                          shape_text(inputs.sizes()) + ": " + reason(error));
  }
}

void ModuleModel::train(bool on) { built_.module->train(on); }

void ModuleModel::freeze_norms() {
  for (const auto& module : built_.module->modules())
    if (module->name().find("BatchNorm") != std::string::npos) module->eval();
}

std::vector<std::string> known_architectures(const Registry& registry) {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry.models()) names.push_back(name);
  return names;
}

namespace {

/// Architectures within each other: one that contains itself would never end.
constexpr int kDeepest = 8;

BuiltModel built_by_factory(const std::string& arch, const std::vector<ParameterInfo>& weights,
                            const Registry& registry, int depth) {
  const auto colon = arch.find(':');
  const std::string name = arch.substr(0, colon);
  const auto found = registry.models().find(name);
  if (found == registry.models().end()) {
    const std::vector<std::string> known = known_architectures(registry);
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    throw Error(Errc::kUsage, "there is no architecture named \"" + printable(name) + "\"" +
                                  did_you_mean(name, known) + " (known: " + list + ")");
  }
  if (depth > kDeepest)
    throw Error(Errc::kUsage, "architectures within each other, more than " +
                                  std::to_string(kDeepest) + ": " + printable(arch));
  try {
    return found->second({arch, colon == std::string::npos ? "" : arch.substr(colon + 1), weights,
                          [&](const std::string& inner) {
                            return built_by_factory(inner, weights, registry, depth + 1);
                          }});
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Errc::kFailure,
                "architecture " + printable(arch) + " could not be built: " + reason(error));
  }
}

}  // namespace

std::unique_ptr<Model> build_for(const std::string& arch, const std::vector<ParameterInfo>& weights,
                                 const Registry& registry) {
  return std::make_unique<ModuleModel>(arch, built_by_factory(arch, weights, registry, 1));
}

std::unique_ptr<Model> build_model(const std::string& arch, const Registry& registry) {
  return build_for(arch, {}, registry);
}

}  // namespace gbcompress
