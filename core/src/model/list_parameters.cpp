#include <map>

#include "format/file_kind.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "model/messages.h"
#include "model/module_model.h"
#include "model/recurrent_names.h"
#include "model/state_dict_model.h"

namespace gbcompress {
namespace {

constexpr double kUnknownStd = 1;  // any number above 0: it only scales what g-nets give

std::vector<NamedParameter> names_of_file(const std::filesystem::path& file,
                                          const OpenOptions& options) {
  const TensorBundle bundle = open_tensors(file, options);
  std::map<std::pair<const std::byte*, std::vector<std::int64_t>>, std::string> first;
  std::vector<NamedParameter> result;
  for (const TensorEntry& from : bundle.tensors) {
    NamedParameter entry;
    name_parameter(entry.info, from.name, from.shape);
    entry.info.dtype = from.dtype;
    entry.info.std = kUnknownStd;
    const std::string& name = entry.info.local_name;
    entry.trainable =
        is_real(from.dtype) && name != "running_mean" && name != "running_var" && !from.exact;
    if (!from.bytes.empty()) {
      const auto [known, added] =
          first.try_emplace(std::pair{from.bytes.data(), from.shape}, from.name);
      if (!added) entry.tied_to = known->second;
    }
    result.push_back(std::move(entry));
  }
  guess_recurrent_types(result);
  return result;
}

/// The architecture's own tensors, after checking that the file has them.
std::vector<NamedParameter> names_of_arch(const std::string& arch,
                                          const std::vector<NamedParameter>& values,
                                          const std::filesystem::path& file,
                                          const Registry& registry) {
  std::vector<ParameterInfo> weights;
  std::map<std::string, const ParameterInfo*> by_name;
  for (const NamedParameter& value : values) {
    weights.push_back(value.info);
    by_name[value.info.name] = &value.info;
  }
  std::vector<NamedParameter> result = build_for(arch, weights, registry)->tensors();
  for (NamedParameter& entry : result) {
    entry.tensor = at::Tensor();
    entry.info.std = kUnknownStd;
    if (!entry.tied_to.empty()) continue;
    const auto found = by_name.find(entry.info.name);
    if (found == by_name.end() || found->second->shape != entry.info.shape)
      throw Error(
          Errc::kShapeMismatch,
          printable(file.string()) + ": " + printable(arch) + " has " + printable(entry.info.name) +
              " of shape " + shape_text(entry.info.shape) + ", the file has " +
              (found == by_name.end() ? std::string("none") : shape_text(found->second->shape)));
    entry.info.dtype = found->second->dtype;
  }
  return result;
}

}  // namespace

std::vector<NamedParameter> list_parameters(const std::filesystem::path& file,
                                            const std::string& arch, const Registry& registry,
                                            const OpenOptions& options) {
  if (sniff(file) == FileKind::kTorchScript)
    return open_model(file, arch, registry, options)->tensors();
  std::vector<NamedParameter> values = names_of_file(file, options);
  return arch.empty() ? values : names_of_arch(arch, values, file, registry);
}

}  // namespace gbcompress
