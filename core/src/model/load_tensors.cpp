#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "model/messages.h"
#include "model/tensor_facts.h"

namespace gbcompress {
namespace {

using ByName = std::map<std::string, const NamedParameter*>;

ByName by_name(const std::vector<NamedParameter>& entries) {
  ByName result;
  for (const NamedParameter& entry : entries) result.emplace(entry.info.name, &entry);
  return result;
}

/// The value for an entry, null where there is none. One of several names of a tied tensor is
/// enough.
class Values {
 public:
  Values(const std::vector<NamedParameter>& wanted, const std::vector<NamedParameter>& given)
      : given_(by_name(given)) {
    for (const NamedParameter& entry : wanted)
      if (const auto found = given_.find(entry.info.name); found != given_.end())
        groups_.emplace(group(entry), found->second);
  }
  const NamedParameter* find(const NamedParameter& entry) const {
    if (const auto own = given_.find(entry.info.name); own != given_.end()) return own->second;
    const auto tied = groups_.find(group(entry));
    return tied == groups_.end() ? nullptr : tied->second;
  }

 private:
  static const std::string& group(const NamedParameter& entry) {
    return entry.tied_to.empty() ? entry.info.name : entry.tied_to;
  }
  ByName given_, groups_;
};

std::string described(const NamedParameter& entry) {
  return printable(entry.info.name) + " " + shape_text(entry.info.shape);
}

/// One line for each name or shape that differs.
std::vector<std::string> differences(const std::vector<NamedParameter>& wanted,
                                     const std::vector<NamedParameter>& given) {
  const Values values(wanted, given);
  const ByName want = by_name(wanted);
  std::vector<std::string> missing, unexpected, lines;
  for (const NamedParameter& entry : wanted) {
    const NamedParameter* value = values.find(entry);
    if (value == nullptr)
      missing.push_back("missing " + described(entry));
    else if (value->info.shape != entry.info.shape)
      lines.push_back(described(*value) + " should be " + shape_text(entry.info.shape));
  }
  for (const NamedParameter& entry : given)
    if (!want.contains(entry.info.name)) unexpected.push_back("unexpected " + described(entry));
  // Some of each kind are shown before the list is cut.
  for (std::size_t i = 0; i < std::max(missing.size(), unexpected.size()); ++i) {
    if (i < missing.size()) lines.push_back(missing[i]);
    if (i < unexpected.size()) lines.push_back(unexpected[i]);
  }
  return lines;
}

}  // namespace

void load_tensors(Model& model, const std::vector<NamedParameter>& values) {
  const std::vector<std::string> lines = differences(model.tensors(), values);
  if (!lines.empty()) {
    constexpr std::size_t kShown = 8;
    std::string message = "the tensors do not fit ";
    message += model.arch().empty() ? "the model" : "`arch` " + printable(model.arch());
    for (std::size_t i = 0; i < std::min(kShown, lines.size()); ++i)
      message += (i == 0 ? ":\n  " : "\n  ") + lines[i];
    if (lines.size() > kShown)
      message += "\n  and " + std::to_string(lines.size() - kShown) + " more";
    throw Error(Errc::kShapeMismatch, message);
  }
  const Values by_entry(model.tensors(), values);
  at::NoGradGuard no_grad;
  for (NamedParameter& entry : model.tensors()) {
    const NamedParameter& value = *by_entry.find(entry);
    entry.tensor.copy_(value.tensor);
    entry.info.dtype = value.info.dtype;
    entry.info.std = standard_deviation(entry.tensor);
  }
  freeze_not_finite(model.tensors());
}

}  // namespace gbcompress
