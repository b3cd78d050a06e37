#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

#include "gbcompress/model.h"
#include "model/tensor_facts.h"

namespace gbcompress {
namespace {

/// "torch::nn::Conv2dImpl" -> "Conv2d"; "my::Net<float>" -> "Net".
std::string layer_type(std::string name) {
  name.resize(std::min(name.find('<'), name.size()));
  if (const auto colon = name.rfind("::"); colon != std::string::npos) name.erase(0, colon + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}
std::string layer_type(const torch::nn::Module& module) { return layer_type(module.name()); }

/// TorchScript names classes "__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear".
std::string layer_type(const torch::jit::Module& module) {
  return module.type()->name() ? module.type()->name()->name() : "";
}

struct Walk {
  std::vector<NamedParameter> parameters, buffers;

  void add(std::vector<NamedParameter>& list, const std::string& path, const std::string& type,
           const std::string& local, const at::Tensor& tensor, bool trainable) {
    if (!tensor.defined()) return;
    NamedParameter entry;
    entry.info.name = path.empty() ? local : path + "." + local;
    entry.info.local_name = local;
    entry.info.module_path = path;
    entry.info.module_type = type;
    entry.tensor = tensor;
    entry.trainable = trainable;
    fill_facts(entry);
    list.push_back(std::move(entry));
  }

  // torch::nn::Module keeps its children behind pointers, torch::jit::Module by value.
  static torch::nn::Module& child(const std::shared_ptr<torch::nn::Module>& module) {
    return *module;
  }
  static torch::jit::Module child(const torch::jit::Module& module) { return module; }
  template <typename Item>
  static const auto& key(const Item& item) {
    if constexpr (requires { item.key(); })
      return item.key();
    else
      return item.name;
  }
  template <typename Item>
  static const auto& value(const Item& item) {
    if constexpr (requires { item.key(); })
      return item.value();
    else
      return item.value;
  }

  template <typename Module>
  void visit(Module&& module, const std::string& path) {
    const std::string type = layer_type(module);
    for (const auto& item : module.named_parameters(/*recurse=*/false))
      add(parameters, path, type, key(item), value(item), true);
    for (const auto& item : module.named_buffers(/*recurse=*/false))
      add(buffers, path, type, key(item), value(item), false);
    for (const auto& item : module.named_children())
      visit(child(value(item)), path.empty() ? std::string(key(item)) : path + "." + key(item));
  }

  std::vector<NamedParameter> finish() {
    parameters.insert(parameters.end(), buffers.begin(), buffers.end());
    mark_ties(parameters);
    return std::move(parameters);
  }
};

}  // namespace

std::vector<NamedParameter> named_parameters(torch::nn::Module& module) {
  Walk walk;
  walk.visit(module, "");
  return walk.finish();
}

std::vector<NamedParameter> named_parameters(torch::jit::Module& module) {
  Walk walk;
  walk.visit(module, "");
  return walk.finish();
}

}  // namespace gbcompress
