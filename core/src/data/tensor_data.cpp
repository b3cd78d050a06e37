#include <ATen/ATen.h>

#include "base/text.h"
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
  explicit TensorFile(const std::string& where)
      : label_(printable(where)), entries_(read_tensors(where)) {}

  /// @return undefined tensors where the file has neither
  Part part(const std::string& prefix) const {
    Part result{find(prefix + "inputs"), find(prefix + "targets")};
    if (result.inputs.defined() != result.targets.defined())
      throw Error(Errc::kNotFound,
                  label_ + " must hold both " + prefix + "inputs and " + prefix + "targets");
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
    if (part.inputs.dim() < 2) refuse("inputs must be [rows, ...]");
    if (part.targets.dim() < 1 || part.targets.dim() > 2)
      refuse("targets must be [rows] or [rows, positions]");
    if (part.inputs.size(0) != part.targets.size(0) || part.inputs.numel() == 0 ||
        part.targets.numel() == 0)
      refuse("inputs and " + prefix + "targets must have the same number of rows, and some");
    if (!at::isIntegralType(part.targets.scalar_type(), false))
      refuse("targets must be whole numbers");
    // Whole numbers as inputs are indices into an embedding.
    part.inputs = part.inputs.to(part.inputs.is_floating_point() ? at::kFloat : at::kLong);
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
    throw Error(Errc::kUsage, "tensors:FILE is taken as it is; leave out mean and std");
  const TensorFile file(where);
  Part train = file.part(""), test = file.part("test_");
  if (!train.inputs.defined())
    throw Error(Errc::kNotFound, file.label() + " holds no tensors named inputs and targets");
  if (!test.inputs.defined()) {
    const std::int64_t rows = train.inputs.size(0), held = held_out_tenth(rows, where);
    test = {train.inputs.narrow(0, rows - held, held), train.targets.narrow(0, rows - held, held)};
    train = {train.inputs.narrow(0, 0, rows - held), train.targets.narrow(0, 0, rows - held)};
  }
  if (train.inputs.sizes().slice(1) != test.inputs.sizes().slice(1) ||
      train.targets.dim() != test.targets.dim())
    throw Error(Errc::kShapeMismatch,
                file.label() + ": inputs and test_inputs have rows of different shape");
  const std::int64_t classes = 1 + std::max(train.targets.max().item<std::int64_t>(),
                                            test.targets.max().item<std::int64_t>());
  const Metric metric = train.targets.dim() == 1 ? Metric::kAccuracy : Metric::kNatsPerChar;
  return {"", Dataset(train.inputs, train.targets), Dataset(test.inputs, test.targets), metric,
          classes};
}

}  // namespace gbcompress
