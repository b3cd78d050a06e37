#include "format/torch/checkpoint_walk.h"

#include <algorithm>
#include <string_view>

#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

/// Makers of tensors that are no plain ones: quantized, sparse, nested, of NumPy.
bool makes_tensors(std::string_view name) {
  for (const std::string_view start :
       {"a tensor of ", "torch._utils._rebuild", "torch._tensor.", "torch.storage.",
        "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"})
    if (name.starts_with(start)) return true;
  return false;
}

}  // namespace

bool CheckpointWalk::is_container(const PickleValue& value) noexcept {
  return value.kind == Kind::kDict || value.kind == Kind::kList || value.kind == Kind::kTuple;
}

bool CheckpointWalk::has_key(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return false;
  for (std::size_t i = 0; i < dict.items.size(); i += 2)
    if (tree_[dict.items[i]].kind == Kind::kText && tree_[dict.items[i]].text == key) return true;
  return false;
}

bool CheckpointWalk::is_module(PickleHandle at) const {
  if (tree_[at].kind != Kind::kObject) return false;
  const auto& items = tree_[at].items;
  return std::any_of(items.begin(), items.end(), [&](PickleHandle item) {
    return has_key(tree_[item], "_modules") || has_key(tree_[item], "_parameters");
  });
}

bool CheckpointWalk::is_optimizer(PickleHandle at) const {
  return has_key(tree_[at], "state") && has_key(tree_[at], "param_groups");
}

void CheckpointWalk::too_deep() const {
  throw Error(Errc::kLimit, label_ + " nests its dictionaries too deep");
}

void CheckpointWalk::visit(std::size_t depth) {
  if (depth > kMaxDepth || ++visits_ > kMaxVisits) too_deep();
}

void CheckpointWalk::each_child(
    PickleHandle at, const std::function<void(const std::string&, PickleHandle)>& use) const {
  const PickleValue& value = tree_[at];
  if (value.kind != Kind::kDict) {
    for (std::size_t i = 0; i < value.items.size(); ++i) use(std::to_string(i), value.items[i]);
    return;
  }
  for (std::size_t i = 0; i < value.items.size(); i += 2) {
    const PickleValue& key = tree_[value.items[i]];
    if (key.kind != Kind::kText && key.kind != Kind::kInt)
      throw Error(Errc::kUnsupported,
                  label_ + " has a dictionary key that is neither text nor number");
    use(key.kind == Kind::kText ? key.text : std::to_string(key.number), value.items[i + 1]);
  }
}

TensorCount CheckpointWalk::count(PickleHandle at) {
  TensorCount result;
  count(at, 0, result);
  return result;
}

void CheckpointWalk::count(PickleHandle at, std::size_t depth, TensorCount& into) {
  visit(depth);
  const PickleValue& value = tree_[at];
  if (value.kind == Kind::kTensor) {
    constexpr std::int64_t kMost = std::int64_t{1} << 62;
    const auto& sides = tree_[value.items[1]].items;
    std::int64_t bytes = dtype_bits(*value.dtype) / 8;
    for (const PickleHandle side : sides)
      if (__builtin_mul_overflow(bytes, tree_[side].number, &bytes)) bytes = kMost;
    ++into.tensors;
    into.rank = std::max(into.rank, sides.size());
    if (__builtin_add_overflow(into.bytes, bytes, &into.bytes)) into.bytes = kMost;
    into.bytes = std::clamp<std::int64_t>(into.bytes, 0, kMost);
  } else if (value.kind == Kind::kObject && makes_tensors(value.text)) {
    ++into.tensors;
  } else if (is_container(value)) {
    const std::size_t stride = value.kind == Kind::kDict ? 2 : 1;
    for (std::size_t i = stride - 1; i < value.items.size(); i += stride)
      count(value.items[i], depth + 1, into);
  }
}

bool CheckpointWalk::is_numbers(const PickleValue& list) const {
  if (list.kind == Kind::kDict || list.items.empty()) return false;
  const Kind kind = tree_[list.items[0]].kind;
  return (kind == Kind::kInt || kind == Kind::kFloat) &&
         std::all_of(list.items.begin(), list.items.end(),
                     [&](PickleHandle item) { return tree_[item].kind == kind; });
}

void CheckpointWalk::flatten(PickleHandle at, const std::string& name, bool numbers, Named& into) {
  flatten(at, name, numbers, 0, into);
}

void CheckpointWalk::flatten(PickleHandle at, const std::string& name, bool numbers,
                             std::size_t depth, Named& into) {
  visit(depth);
  if (name.size() > 4 * kMaxTensorName) too_deep();
  const PickleValue& value = tree_[at];
  const bool number =
      value.kind == Kind::kBool || value.kind == Kind::kInt || value.kind == Kind::kFloat;
  if (value.kind == Kind::kTensor ||
      (numbers && (number || (is_container(value) && is_numbers(value))))) {
    if (into.size() == kMaxTensors)
      throw Error(Errc::kLimit, label_ + " has more than 1,000,000 tensors");
    into.emplace_back(name, at);
  } else if (is_container(value)) {
    each_child(at, [&](const std::string& key, PickleHandle child) {
      flatten(child, name.empty() ? key : name + "." + key, numbers, depth + 1, into);
    });
  } else if (value.kind != Kind::kNone) {
    refuse_tensor_object(at, name);
    if (skipped_.size() < kMaxTensors)
      skipped_.push_back({name, 0, 0, value.kind == Kind::kObject ? value.text : ""});
  }
}

void CheckpointWalk::refuse_tensor_object(PickleHandle at, const std::string& name) const {
  const PickleValue& value = tree_[at];
  if (value.kind == Kind::kObject && makes_tensors(value.text))
    throw Error(Errc::kUnsupported,
                label_ + ": " + printable(name.substr(0, kMaxTensorName)) + " is " +
                    (value.text.starts_with("a tensor") ? "" : "made by ") +
                    printable(value.text.substr(0, 256)) +
                    ", which is not read; save it as a plain tensor (.dequantize(), .int_repr(), "
                    ".to_dense(), .resolve_conj(), .resolve_neg(), torch.from_numpy())");
}

}  // namespace gbcompress
