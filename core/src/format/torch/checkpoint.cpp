#include "format/torch/checkpoint.h"

#include <algorithm>
#include <optional>
#include <set>

#include "format/torch/checkpoint_walk.h"
#include "format/torch/training_state.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

struct Child {
  std::string name;  ///< dotted, from the root
  std::string key;
  PickleHandle value = 0;
  TensorCount count = {};
};

/// What a container holds, sorted by what it may be.
struct Contents {
  std::vector<Child> tensors, models, rest;
};

std::string names_of(const std::vector<Child>& children) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, children.size()); ++i)
    text += (i == 0 ? "" : i + 1 == children.size() ? " and " : ", ") + printable(children[i].name);
  return children.size() > kShown ? text + " and more" : text;
}

class Finder {
 public:
  Finder(const PickleTree& tree, const OpenOptions& options, const std::string& label)
      : tree_(tree), options_(options), label_(label), walk_(tree, label) {}

  FoundModel find() {
    const PickleValue& root = tree_[tree_.root];
    walk_.refuse_tensor_object(tree_.root, "its one tensor");
    if (root.kind == Kind::kObject && !walk_.is_module(tree_.root))
      throw Error(Errc::kUnsupported, label_ + " holds an object made by " + printable(root.text) +
                                          ", not a dictionary of tensors; it is not run");
    if (!walk_.has_children(tree_.root))
      throw Error(Errc::kUnsupported, label_ + " does not hold a dictionary of tensors");
    if (options_.keep_all) {
      walk_.flatten(tree_.root, "", true, found_.values);
      if (found_.values.empty()) throw Error(Errc::kUnsupported, label_ + " holds no tensors");
      say("left out, neither tensors nor numbers: ", walk_.skipped());
    } else if (!options_.part.empty()) {
      enter_part(tree_.root, "", options_.part);
    } else {
      descend(tree_.root, "");
    }
    return std::move(found_);
  }

 private:
  Contents sort(PickleHandle at, const std::string& prefix) {
    Contents contents;
    walk_.each_child(at, [&](const std::string& key, PickleHandle value) {
      Child child{prefix + key, key, value, walk_.count(value)};
      const bool container = walk_.has_children(value);
      if (tree_[value].kind == Kind::kTensor && !is_training_key(key))
        contents.tensors.push_back(std::move(child));
      else if (container && child.count.rank > 0 && !is_training_key(key) &&
               !walk_.is_optimizer(value))
        contents.models.push_back(std::move(child));
      else
        contents.rest.push_back(std::move(child));
    });
    // Statistics beside a model: no model is without a matrix.
    const auto is_small = [](const Child& child) { return child.count.rank < 2; };
    if (!std::all_of(contents.models.begin(), contents.models.end(), is_small)) {
      const auto small = std::stable_partition(contents.models.begin(), contents.models.end(),
                                               [&](const Child& c) { return !is_small(c); });
      std::move(small, contents.models.end(), std::back_inserter(contents.rest));
      contents.models.erase(small, contents.models.end());
    }
    return contents;
  }

  /// Goes down to the model.
  /// @param name  dotted, of a container; "" for the root
  void descend(PickleHandle at, std::string name) {
    for (std::size_t depth = 0;; ++depth) {
      if (depth > CheckpointWalk::kMaxDepth) walk_.too_deep();
      if (walk_.is_module(at)) return take_module(at, name);
      if (walk_.is_optimizer(at)) {
        leave_out({{name.empty() ? "an optimizer's state" : name, "", at, walk_.count(at)}});
        refuse_none();
      }
      Contents contents = sort(at, name.empty() ? "" : name + ".");
      choose_average(contents);
      const auto& models = contents.models;
      const bool own =
          std::any_of(contents.tensors.begin(), contents.tensors.end(),
                      [&](const Child& child) { return models.empty() || child.count.rank > 0; });
      if (models.size() == 1 && (!own || is_model_key(models[0].key))) {
        for (const auto* beside : {&contents.rest, &contents.tensors}) leave_out(*beside);
        at = models[0].value;
        name = models[0].name;
        continue;
      }
      const bool usual = std::any_of(models.begin(), models.end(),
                                     [](const Child& c) { return is_model_key(c.key); });
      // Whoever names a part has said that it is one model.
      if (models.size() > 1 && (!own || usual) && (options_.part.empty() || name != options_.part))
        refuse_several(models);
      if (!own && models.empty()) {
        for (const Child& child : contents.rest)
          if (!is_training_key(child.key)) walk_.refuse_tensor_object(child.value, child.name);
        leave_out(contents.rest);
        refuse_none();
      }
      return take(at, contents);
    }
  }

  /// A pickled model beside the running average of its weights, as trainers of detectors save them:
  /// those load the average.
  void choose_average(Contents& contents) {
    auto& models = contents.models;
    if (models.size() != 2 || !walk_.is_module(models[0].value) ||
        !walk_.is_module(models[1].value))
      return;
    const bool first = is_average_key(models[0].key) && is_model_key(models[1].key);
    if (!first && !(is_average_key(models[1].key) && is_model_key(models[0].key))) return;
    const Child other = models[first ? 1 : 0];
    models.erase(models.begin() + (first ? 1 : 0));
    found_.notes.push_back("read: " + printable(models[0].name) + ", the average of " +
                           printable(other.name) + "; choose the other with `part` " +
                           printable(other.name));
    leave_out({other});
  }

  /// A pickled module: what its state dict would hold.
  void take_module(PickleHandle at, const std::string& name) {
    found_.notes.push_back((name.empty() ? "the file" : printable(name)) +
                           " is a pickled module of class " + printable(tree_[at].text) +
                           ": its parameters and buffers are read, its code is not");
    walk_.flatten(at, "", false, found_.values);
    if (found_.values.empty()) refuse_none();
    append(left_out_, walk_.skipped());
    say("left out: ", left_out_);
  }

  /// The container is the model, but for what its keys say belongs to the training.
  void take(PickleHandle at, const Contents& contents) {
    std::set<PickleHandle> beside;
    for (const Child& child : contents.rest) {
      const bool tensor = tree_[child.value].kind == Kind::kTensor;
      const bool training = is_training_key(child.key) || walk_.is_optimizer(child.value);
      if (child.count.tensors > 0 && !(tensor ? !contents.models.empty() : training)) continue;
      beside.insert(child.value);
      leave_out({child});
    }
    walk_.each_child(at, [&](const std::string& key, PickleHandle value) {
      if (!beside.contains(value)) walk_.flatten(value, key, false, found_.values);
    });
    append(left_out_, walk_.skipped());
    say("left out: ", left_out_);
  }

  /// @param wanted  the rest of the part's name
  void enter_part(PickleHandle at, const std::string& prefix, const std::string& wanted) {
    std::vector<Child> others;
    std::optional<Child> inner;
    walk_.each_child(at, [&](const std::string& key, PickleHandle value) {
      Child child{prefix + key, key, value, walk_.count(value)};
      const bool here = wanted == key || (!key.empty() && wanted.starts_with(key + "."));
      if (!inner && here && walk_.has_children(value))
        inner = std::move(child);
      else
        others.push_back(std::move(child));
    });
    if (!inner) refuse_part();
    leave_out(others);
    if (inner->key == wanted)
      descend(inner->value, inner->name);
    else  // ends: the name gets shorter
      enter_part(inner->value, inner->name + ".", wanted.substr(inner->key.size() + 1));
  }

  // What is left out.
  void leave_out(const std::vector<Child>& children) {
    for (const Child& child : children) {
      const PickleValue& value = tree_[child.value];
      if (value.kind == Kind::kNone) continue;
      left_out_.push_back({child.name, child.count.tensors, child.count.bytes,
                           value.kind == Kind::kObject ? value.text : ""});
    }
  }
  static void append(std::vector<LeftOut>& to, const std::vector<LeftOut>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  void say(const std::string& head, std::vector<LeftOut> list) {
    if (list.empty()) return;
    sort_left_out(list);
    for (const LeftOut& each : list) found_.left_out.push_back(each.name);
    found_.notes.push_back(head + left_out_text(list));
  }

  // Errors.
  [[noreturn]] void refuse_several(const std::vector<Child>& models) const {
    throw Error(Errc::kUsage, label_ + " holds " + std::to_string(models.size()) +
                                  " candidates for the model: " + names_of(models) +
                                  "; choose one with `part` NAME, or take all with `keep_all`");
  }
  [[noreturn]] void refuse_none() const {
    if (left_out_.empty()) throw Error(Errc::kUnsupported, label_ + " holds no tensors");
    std::vector<LeftOut> list = left_out_;
    sort_left_out(list);
    throw Error(Errc::kUnsupported, label_ + " holds no model, only " + left_out_text(list));
  }
  [[noreturn]] void refuse_part() {
    std::vector<Child> parts;
    walk_.each_child(tree_.root, [&](const std::string& key, PickleHandle value) {
      if (walk_.has_children(value) && walk_.count(value).tensors > 0)
        parts.push_back({key, key, value});
    });
    throw Error(Errc::kNotFound, label_ + " has no part " + printable(options_.part) +
                                     (parts.empty() ? "" : "; it has " + names_of(parts)));
  }

  const PickleTree& tree_;
  const OpenOptions& options_;
  const std::string& label_;
  CheckpointWalk walk_;
  std::vector<LeftOut> left_out_;
  FoundModel found_;
};

}  // namespace

FoundModel find_model(const PickleTree& tree, const OpenOptions& options,
                      const std::string& label) {
  return Finder(tree, options, label).find();
}

}  // namespace gbcompress
