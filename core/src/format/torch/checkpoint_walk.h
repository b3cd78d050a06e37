#pragma once
/// Walks over the values of a pickle, with bounds on depth and visits: containers may hold each
/// other many times over, and themselves.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "format/folder/left_out.h"
#include "format/torch/pickle.h"

namespace gbcompress {

struct TensorCount {
  std::size_t tensors = 0, rank = 0;  ///< rank: the largest
  std::int64_t bytes = 0;             ///< at most 2^62
};

class CheckpointWalk {
 public:
  using Use = std::function<void(const std::string&, PickleHandle)>;
  using Named = std::vector<std::pair<std::string, PickleHandle>>;
  static constexpr std::size_t kMaxDepth = 64, kMaxVisits = 16'000'000;

  /// @param label  the file, for messages
  CheckpointWalk(const PickleTree& tree, const std::string& label) : tree_(tree), label_(label) {}

  /// A dictionary, list or tuple.
  static bool is_container(const PickleValue& value) noexcept;
  /// A pickled torch.nn.Module: an object whose state has parameters or submodules.
  bool is_module(PickleHandle at);
  /// A container or a module.
  bool has_children(PickleHandle at);
  /// What an optimizer's state_dict() gives.
  bool is_optimizer(PickleHandle at) const;

  /// The items of a dictionary, or of a list or tuple under "0", "1", ...; of a module what its
  /// state_dict() holds: parameters, buffers but for those that are not persistent, submodules.
  /// @throws Error(kUnsupported) for a submodule that is no module, and where tensors stand under a
  ///         key that is neither text nor number
  void each_child(PickleHandle at, const Use& use);
  /// Tensors of a value, of those shared each time, and objects that stand for tensors. Each value
  /// is visited once, however often this is called and at whatever depth; in a circle it counts 0.
  TensorCount count(PickleHandle at);
  /// Adds the tensors under a value, names joined by dots.
  /// @param numbers  also numbers and lists of them
  /// @throws Error(kUnsupported) naming an object that stands for a tensor; Error(kLimit)
  void flatten(PickleHandle at, const std::string& name, bool numbers, Named& into);
  /// What flatten() passed over.
  const std::vector<LeftOut>& skipped() const noexcept { return skipped_; }

  /// @throws Error(kUnsupported) for an object that stands for a tensor
  void refuse_tensor_object(PickleHandle at, const std::string& name) const;
  [[noreturn]] void too_deep() const;

 private:
  TensorCount count_here(PickleHandle at) const;
  struct Parts {
    const PickleValue *parameters = nullptr, *buffers = nullptr, *modules = nullptr;
    std::set<std::string_view> computed;  ///< buffers that are not persistent
  };
  std::vector<PickleHandle> children(PickleHandle at);
  void each_of_module(PickleHandle at, bool strict, const Use& use);
  std::optional<PickleHandle> attributes_in(PickleHandle at);
  std::optional<PickleHandle> known_attributes(PickleHandle at);
  const Parts& parts_of(PickleHandle module);
  const PickleValue* value_of(const PickleValue& dict, std::string_view key) const;
  std::string key_text(const PickleValue& key) const;
  void skip(PickleHandle at, const std::string& name);
  void flatten(PickleHandle at, const std::string& name, bool numbers, std::size_t depth,
               Named& into);
  bool is_numbers(const PickleValue& list) const;
  void visit(std::size_t depth, std::size_t values);

  const PickleTree& tree_;
  const std::string& label_;
  std::size_t visits_ = 0, name_bytes_ = 0;
  std::vector<TensorCount> counts_;  ///< by handle
  std::vector<bool> counted_;
  std::unordered_map<PickleHandle, std::optional<PickleHandle>> attributes_;
  std::unordered_map<PickleHandle, Parts> parts_;  ///< by the dictionary of attributes
  std::vector<LeftOut> skipped_;
};

}  // namespace gbcompress
