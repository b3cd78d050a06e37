#include "format/torch/checkpoint_walk.h"

#include <algorithm>
#include <string_view>

#include "format/tensor_bundle.h"
#include "format/torch/odd_tensor.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;
constexpr std::size_t kMostTensors = std::size_t{1} << 62;
constexpr std::size_t kMaxNameBytes = 256 << 20;  ///< of all names together

void add(TensorCount& sum, const TensorCount& more) {
  sum.tensors = std::min(kMostTensors, sum.tensors + more.tensors);
  sum.rank = std::max(sum.rank, more.rank);
  sum.bytes = std::min(kMostBytes, sum.bytes + more.bytes);
}

}  // namespace

bool CheckpointWalk::is_container(const PickleValue& value) noexcept {
  return value.kind == Kind::kDict || value.kind == Kind::kList || value.kind == Kind::kTuple;
}

const PickleValue* CheckpointWalk::value_of(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (tree_[dict.items[i]].kind == Kind::kText && tree_[dict.items[i]].text == key)
      return &tree_[dict.items[i + 1]];
  return nullptr;
}

/// A dictionary of a module's attributes: itself, or among the items of a tuple.
std::optional<PickleHandle> CheckpointWalk::attributes_in(PickleHandle at) {
  if (tree_[at].kind == Kind::kDict) {
    const bool found = value_of(tree_[at], "_modules") || value_of(tree_[at], "_parameters");
    return found ? std::optional(at) : std::nullopt;
  }
  if (tree_[at].kind == Kind::kTuple)
    for (const PickleHandle item : tree_[at].items)
      if (tree_[item].kind == Kind::kDict)
        if (const auto found = known_attributes(item)) return found;
  return {};
}

/// attributes_in(), worked out once for each value: many objects may share one state.
std::optional<PickleHandle> CheckpointWalk::known_attributes(PickleHandle at) {
  if (const auto known = attributes_.find(at); known != attributes_.end()) return known->second;
  std::optional<PickleHandle> found;
  if (tree_[at].kind != Kind::kObject) {
    found = attributes_in(at);
  } else {
    for (const PickleHandle item : tree_[at].items)
      if (tree_[item].kind != Kind::kObject && !found) found = known_attributes(item);
  }
  attributes_[at] = found;
  return found;
}

bool CheckpointWalk::is_module(PickleHandle at) {
  return tree_[at].kind == Kind::kObject && known_attributes(at).has_value();
}

/// The dictionaries of a module that hold its tensors and submodules.
const CheckpointWalk::Parts& CheckpointWalk::parts_of(PickleHandle module) {
  const PickleHandle attributes = *known_attributes(module);
  const auto [at, added] = parts_.try_emplace(attributes);
  if (added) {
    const PickleValue& state = tree_[attributes];
    at->second = {value_of(state, "_parameters"),
                  value_of(state, "_buffers"),
                  value_of(state, "_modules"),
                  {}};
    if (const PickleValue* names = value_of(state, "_non_persistent_buffers_set"))
      for (const PickleHandle name : names->items) at->second.computed.insert(tree_[name].text);
  }
  return at->second;
}

bool CheckpointWalk::has_children(PickleHandle at) {
  return is_container(tree_[at]) || is_module(at);
}

bool CheckpointWalk::is_optimizer(PickleHandle at) const {
  return value_of(tree_[at], "state") && value_of(tree_[at], "param_groups");
}

void CheckpointWalk::too_deep() const {
  throw Error(Errc::kLimit, label_ + " nests its dictionaries too deep");
}

void CheckpointWalk::visit(std::size_t depth, std::size_t values) {
  visits_ += values;
  if (depth > kMaxDepth || visits_ > kMaxVisits) too_deep();
}

std::string CheckpointWalk::key_text(const PickleValue& key) const {
  switch (key.kind) {
    case Kind::kText:
      return key.text;
    case Kind::kInt:
      return std::to_string(key.number);
    case Kind::kBool:
      return key.number != 0 ? "True" : "False";
    case Kind::kNone:
      return "None";
    default:
      return {};
  }
}

void CheckpointWalk::each_child(PickleHandle at, const Use& use) {
  const PickleValue& value = tree_[at];
  if (is_module(at)) return each_of_module(at, true, use);
  if (value.kind != Kind::kDict) {
    for (std::size_t i = 0; i < value.items.size(); ++i) use(std::to_string(i), value.items[i]);
    return;
  }
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const PickleValue& key = tree_[value.items[i]];
    const bool named = key.kind == Kind::kText || key.kind == Kind::kInt;
    if (!named && count(value.items[i + 1]).tensors > 0)
      throw Error(Errc::kUnsupported,
                  label_ +
                      " has tensors under a dictionary key that is neither text nor number; "
                      "save them under names");
    const std::string text = key_text(key);
    use(named || !text.empty() ? text : "a key that is no text", value.items[i + 1]);
  }
}

void CheckpointWalk::each_of_module(PickleHandle at, bool strict, const Use& use) {
  const Parts& parts = parts_of(at);
  for (const PickleValue* dict : {parts.parameters, parts.buffers, parts.modules}) {
    if (!dict || dict->kind != Kind::kDict) continue;
    visit(0, dict->items.size());
    for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
      const PickleValue& key = tree_[dict->items[i]];
      const PickleHandle child = dict->items[i + 1];
      if (key.kind != Kind::kText || tree_[child].kind == Kind::kNone) continue;
      if (dict == parts.buffers && parts.computed.contains(key.text)) continue;
      if (strict && dict == parts.modules && !is_module(child))
        throw Error(Errc::kUnsupported,
                    label_ + ": the module " + printable(key.text.substr(0, kMaxTensorName)) +
                        " is of class " + printable(tree_[child].text.substr(0, 256)) +
                        ", which does not store its parameters as a module does; save the "
                        "model's state_dict()");
      use(key.text, child);
    }
  }
}

std::vector<PickleHandle> CheckpointWalk::children(PickleHandle at) {
  std::vector<PickleHandle> result;
  if (is_module(at)) {
    each_of_module(at, false,
                   [&](const std::string&, PickleHandle child) { result.push_back(child); });
  } else if (is_container(tree_[at])) {
    const auto& items = tree_[at].items;
    const std::size_t stride = tree_[at].kind == Kind::kDict ? 2 : 1;
    for (std::size_t i = stride - 1; i < items.size(); i += stride)
      if (is_container(tree_[items[i]]) || tree_[items[i]].kind == Kind::kTensor ||
          tree_[items[i]].kind == Kind::kObject)
        result.push_back(items[i]);
  }
  return result;
}

/// Of a value by itself.
TensorCount CheckpointWalk::count_here(PickleHandle at) const {
  const PickleValue& value = tree_[at];
  if (value.kind == Kind::kObject && value.number == 1) return {1, 0, 0};
  if (value.kind != Kind::kTensor) return {};
  const auto& sides = tree_[value.items[1]].items;
  std::int64_t bytes = 1;
  for (const PickleHandle side : sides)
    if (__builtin_mul_overflow(bytes, tree_[side].number, &bytes)) bytes = kMostBytes;
  bytes = std::clamp<std::int64_t>(bytes, 0, kMostBytes / 64) * dtype_bits(*value.dtype) / 8;
  return {1, sides.size(), bytes};
}

TensorCount CheckpointWalk::count(PickleHandle root) {
  struct Frame {
    PickleHandle at;
    std::vector<PickleHandle> children;
    std::size_t next = 0;
  };
  counts_.resize(tree_.values.size());
  counted_.resize(tree_.values.size());
  std::vector<Frame> path;
  const auto enter = [&](PickleHandle at) {
    counted_[at] = true;
    counts_[at] = count_here(at);
    path.push_back({at, children(at)});
  };
  if (!counted_[root]) enter(root);
  while (!path.empty()) {
    Frame& frame = path.back();
    if (frame.next == frame.children.size()) {
      for (const PickleHandle child : frame.children) add(counts_[frame.at], counts_[child]);
      path.pop_back();
    } else if (const PickleHandle child = frame.children[frame.next++]; !counted_[child]) {
      enter(child);
    }
  }
  return counts_[root];
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
  visit(depth, numbers ? 1 + tree_[at].items.size() : 1);
  name_bytes_ += name.size();
  if (name.size() > 4 * kMaxTensorName || name_bytes_ > kMaxNameBytes) too_deep();
  const PickleValue& value = tree_[at];
  const bool number =
      value.kind == Kind::kBool || value.kind == Kind::kInt || value.kind == Kind::kFloat;
  if (value.kind == Kind::kTensor ||
      (numbers && (number || (is_container(value) && is_numbers(value))))) {
    if (into.size() == kMaxTensors)
      throw Error(Errc::kLimit, label_ + " has more than 1,000,000 tensors");
    into.emplace_back(name, at);
  } else if (is_module(at) || (is_container(value) && (numbers || count(at).tensors > 0))) {
    each_child(at, [&](const std::string& key, PickleHandle child) {
      flatten(child, name.empty() ? key : name + "." + key, numbers, depth + 1, into);
    });
  } else if (value.kind != Kind::kNone) {
    refuse_tensor_object(at, name);
    skip(at, name);
  }
}

void CheckpointWalk::skip(PickleHandle at, const std::string& name) {
  const PickleValue& value = tree_[at];
  if (is_container(value) && value.items.empty()) return;  // nothing is lost
  if (skipped_.size() < kMaxTensors)
    skipped_.push_back({name, 0, 0, value.kind == Kind::kObject ? value.text : ""});
}

void CheckpointWalk::refuse_tensor_object(PickleHandle at, const std::string& name) const {
  const PickleValue& value = tree_[at];
  if (value.kind == Kind::kObject && value.number == 1)
    throw Error(Errc::kUnsupported, label_ + ": " + printable(name.substr(0, kMaxTensorName)) +
                                        " " + odd_tensor_text(value));
}

}  // namespace gbcompress
