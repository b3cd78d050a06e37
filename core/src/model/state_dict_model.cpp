#include "model/state_dict_model.h"

#include <ATen/ATen.h>

#include <cstring>
#include <map>

#include "format/tensor_bundle.h"
#include "gbcompress/error.h"
#include "model/forward_pass.h"
#include "model/recurrent_names.h"
#include "model/tensor_facts.h"
#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {
namespace {

at::Tensor copy_of(const TensorEntry& entry) {
  at::Tensor tensor = at::empty(entry.shape, to_scalar_type(entry.dtype));
  if (!entry.bytes.empty())
    std::memcpy(tensor.mutable_data_ptr(), entry.bytes.data(), entry.bytes.size());
  return tensor;
}

bool is_trainable(const NamedParameter& entry) {
  const std::string& name = entry.info.local_name;
  return is_real(entry.info.dtype) && name != "running_mean" && name != "running_var" &&
         entry.tensor.isfinite().all().item<bool>();
}

/// Says which tensors are exact because they hold NaN or infinity.
void note_not_finite(const TensorBundle& bundle, std::vector<std::string>& notes) {
  std::vector<NotFiniteTensor> found;
  for (const TensorEntry& tensor : bundle.tensors)
    if (const auto facts = not_finite(tensor, numbers_of(tensor)))
      found.push_back({tensor.name, *facts});
  if (!found.empty()) notes.push_back(not_finite_note(found));
}

}  // namespace

std::vector<NamedParameter> read_tensors(const std::filesystem::path& file,
                                         const OpenOptions& options,
                                         std::vector<std::string>* notes) {
  const TensorBundle bundle = open_tensors(file, options);
  if (notes) *notes = bundle.notes;
  std::map<const std::byte*, const NamedParameter*> shared;
  std::vector<NamedParameter> result(bundle.tensors.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const TensorEntry& from = bundle.tensors[i];
    NamedParameter& entry = result[i];
    name_parameter(entry.info, from.name, from.shape);
    // Two names of one saved tensor stay one tensor.
    const auto [known, added] = shared.try_emplace(from.bytes.data(), &entry);
    const NamedParameter& earlier = *known->second;
    try {
      const bool same =
          !added && earlier.info.shape == from.shape && earlier.info.dtype == from.dtype;
      entry.tensor = same ? earlier.tensor : copy_of(from);
    } catch (const Error& error) {
      throw Error(error.code(), printable(from.name) + ": " + error.what());
    }
    fill_facts(entry);
  }
  guess_recurrent_types(result);
  if (notes) note_not_finite(bundle, *notes);
  mark_ties(result);
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i].trainable = is_trainable(result[i]) && !bundle.tensors[i].exact;
  return result;
}

void name_parameter(ParameterInfo& info, const std::string& name,
                    const std::vector<std::int64_t>& shape) {
  info.name = name;
  const auto dot = name.rfind('.');
  info.local_name = name.substr(dot + 1);  // the whole name where there is no dot
  if (dot != std::string::npos) info.module_path = name.substr(0, dot);
  info.module_type = guess_module_type(info.module_path, info.local_name, shape);
  info.shape = shape;
}

std::string guess_module_type(const std::string& module_path, const std::string& local_name,
                              const std::vector<std::int64_t>& shape) {
  if (shape.size() == 2 && local_name == "in_proj_weight") return "MultiheadAttention";
  if (local_name != "weight" || shape.size() < 2 || shape.size() > 5) return "";
  if (shape.size() > 2) return "Conv" + std::to_string(shape.size() - 2) + "d";
  // npos + 1 is 0: a path without a dot is its own last atom.
  const std::string layer = module_path.substr(module_path.rfind('.') + 1);
  // Conv1D holds [inputs, outputs]; nets that call a Linear c_attn hold [outputs, inputs].
  if ((layer == "c_attn" || layer == "c_fc") && shape[1] >= shape[0]) return "Conv1D";
  if (layer == "c_proj" && shape[0] >= shape[1]) return "Conv1D";
  for (const char* name : {"tok", "pos", "wte", "wpe", "emb"})
    if (layer == name) return "Embedding";
  const bool embeds = layer.find("embed") != std::string::npos || layer.ends_with("_emb") ||
                      layer.starts_with("emb_");
  return embeds && layer.find("proj") == std::string::npos ? "Embedding" : "Linear";
}

StateDictModel::StateDictModel(std::vector<NamedParameter> tensors) {
  tensors_ = std::move(tensors);
  std::map<std::string, at::Tensor> converted;
  for (NamedParameter& entry : tensors_) {
    if (!entry.trainable) continue;
    entry.tensor = entry.tied_to.empty() ? entry.tensor.to(at::kFloat).requires_grad_()
                                         : converted.at(entry.tied_to);
    converted.emplace(entry.info.name, entry.tensor);
  }
}

at::Tensor StateDictModel::forward(const at::Tensor&) { refuse_forward(""); }

}  // namespace gbcompress
