#include <ATen/ATen.h>

#include "data/sources.h"
#include "gbcompress/error.h"
#include "model/state_dict_model.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxClasses = 1 << 24;

struct Part {
  at::Tensor inputs, targets;
};

class TensorFile {
 public:
  explicit TensorFile(const std::string& where) : label_(printable(where)) {
    entries_ = read_tensors(where);
    for (const NamedParameter& entry : entries_)
      if (is_real(entry.info.dtype) && !at::isfinite(entry.tensor).all().item<bool>())
        throw Error(Errc::kNonFinite,
                    label_ + ": inputs or targets hold NaN or infinity; leave such rows out");
  }

  /// @return undefined tensors where the file has neither
  Part part(const std::string& prefix) const {
    Part result{find(prefix + "inputs"), find(prefix + "targets")};
    if (result.targets.defined() && !result.inputs.defined())
      throw Error(Errc::kNotFound, label_ + " holds " + prefix + "targets and no " + prefix +
                                       "inputs; it must hold both, or inputs alone");
    if (result.inputs.defined()) check(prefix, result);
    return result;
  }
  const std::string& label() const { return label_; }

 private:
  at::Tensor find(const std::string& name) const {
    for (const NamedParameter& entry : entries_)
      if (entry.info.name == name) return entry.tensor;
    return {};
  }

  void check(const std::string& prefix, Part& part) const {
    const auto refuse = [&](const std::string& what) {
      throw Error(Errc::kShapeMismatch, label_ + ": " + prefix + what);
    };
    if (part.inputs.dim() < 2 || part.inputs.numel() == 0)
      refuse("inputs must be [rows, ...], and some");
    // Integer inputs are indices into an embedding.
    part.inputs = part.inputs.to(part.inputs.is_floating_point() ? at::kFloat : at::kLong);
    if (!part.targets.defined()) return;
    if (part.targets.dim() < 1 || part.targets.dim() > 2)
      refuse("targets must be [rows] or [rows, positions]");
    if (part.inputs.size(0) != part.targets.size(0) || part.targets.numel() == 0)
      refuse("inputs and " + prefix + "targets must have the same number of rows, at least 1");
    if (!at::isIntegralType(part.targets.scalar_type(), false)) refuse("targets must be integers");
    part.targets = part.targets.to(at::kLong);
    const auto smallest = part.targets.min().item<std::int64_t>();
    const auto largest = part.targets.max().item<std::int64_t>();
    if (smallest < 0 || largest >= kMaxClasses)
      throw Error(Errc::kCorrupt,
                  label_ + ": " + prefix + "targets must be class numbers from 0 to 16777215");
  }

  std::string label_;
  std::vector<NamedParameter> entries_;
};

}  // namespace

Data open_tensor_data(const std::string& where, const DataOptions& options) {
  if (!options.mean.empty() || !options.std.empty())
    throw Error(Errc::kUsage, "a file of tensors is taken as it is; leave out mean and std");
  const TensorFile file(where);
  Part train = file.part(""), test = file.part("test_");
  if (!train.inputs.defined())
    throw Error(Errc::kNotFound, file.label() + " holds no tensors named inputs and targets");
  const bool labelled = train.targets.defined();
  if (test.inputs.defined() && test.targets.defined() != labelled)
    throw Error(Errc::kNotFound, file.label() +
                                     " must hold both targets and test_targets, or "
                                     "neither");
  // Until an original says what they are.
  for (Part* part : {&train, &test})
    if (!labelled && part->inputs.defined())
      part->targets = at::zeros({part->inputs.size(0)}, at::kLong);
  if (!test.inputs.defined()) {
    const std::int64_t rows = train.inputs.size(0), held = held_out_tenth(rows, where);
    test = {train.inputs.narrow(0, rows - held, held), train.targets.narrow(0, rows - held, held)};
    train = {train.inputs.narrow(0, 0, rows - held), train.targets.narrow(0, 0, rows - held)};
  }
  if (train.inputs.sizes().slice(1) != test.inputs.sizes().slice(1) ||
      train.targets.dim() != test.targets.dim())
    throw Error(Errc::kShapeMismatch,
                file.label() + ": inputs and test_inputs have rows of different shape");
  Data data{"", Dataset(train.inputs, train.targets), Dataset(test.inputs, test.targets)};
  data.has_targets = labelled;
  if (!labelled) return data;
  data.metric = train.targets.dim() == 1 ? Metric::kAccuracy : Metric::kNatsPerChar;
  data.classes = 1 + std::max(train.targets.max().item<std::int64_t>(),
                              test.targets.max().item<std::int64_t>());
  return data;
}

Data open_features(const std::string& where, const DataOptions& options) {
  Data data = open_tensor_data(where, options);
  if (data.has_targets)
    throw Error(Errc::kUsage, printable(where) +
                                  " holds targets; features:FILE takes inputs alone, tensors:FILE "
                                  "both");
  data.metric = Metric::kOutputError;
  return data;
}

}  // namespace gbcompress
