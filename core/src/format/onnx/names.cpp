#include "format/onnx/names.h"

#include <algorithm>

#include "format/container.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress::onnx {
namespace {

bool is_allowed(std::string_view name) {
  if (name == kContainerName || name.size() > kMaxTensorName) return false;
  try {
    check_tensor_name(name, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The tensor's own name, with its scope where that is taken; "" where neither is allowed.
std::string wanted_name(const ModelFile& model, const Tensor& tensor,
                        const std::unordered_set<std::string>& used) {
  // Longer ones are never copied: many tensors may have one name.
  if (tensor.own_name.size() > kMaxTensorName) return {};
  std::string name(tensor.own_name);
  if (is_allowed(name) && !used.contains(name)) return name;
  name.insert(0, scope_of(model, tensor.graph));
  return is_allowed(name) ? name : std::string();
}

}  // namespace

std::string UniqueNames::take(const ModelFile& model, std::size_t tensor) {
  const std::string numbered = "tensor_" + std::to_string(tensor);
  std::string base = wanted_name(model, model.tensors[tensor], used_);
  if (base.empty()) base = numbered;
  std::string name = base;
  while (used_.contains(name)) {
    name = base + "#" + std::to_string(2 + numbers_[base]++);
    if (!is_allowed(name)) name = base = numbered;
  }
  used_.insert(name);
  return name;
}

std::string inner_path(std::string_view location) {
  std::string path;
  bool any = false;
  for (std::size_t first = 0; first <= location.size();) {
    const std::size_t end = std::min(location.find('/', first), location.size());
    const std::string_view part = location.substr(first, end - first);
    first = end + 1;
    if (part == ".") continue;
    path.append(any ? "/" : "").append(part);
    any = true;
  }
  return path;
}

}  // namespace gbcompress::onnx
