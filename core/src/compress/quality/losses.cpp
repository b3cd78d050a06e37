#include "compress/quality/losses.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "gbcompress/weights.h"

namespace gbcompress {
namespace {

std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kCPU).contiguous();
  const auto* first = static_cast<const std::byte*>(values.const_data_ptr());
  return {first, first + values.nbytes()};
}

}  // namespace

TensorBundle model_bundle(const Model& model, const std::vector<at::Tensor>& values) {
  TensorBundle bundle;
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < model.tensors().size(); ++i) {
    const NamedParameter& p = model.tensors()[i];
    TensorEntry entry{p.info.name, p.info.dtype, p.info.shape, {}};
    if (const auto first = index.find(p.tied_to); first != index.end()) {
      entry.bytes = bundle.tensors[first->second].bytes;
    } else {
      const at::Tensor& from = values.empty() ? p.tensor : values[i];
      auto dense = std::make_shared<at::Tensor>(
          from.detach().to(at::kCPU, to_scalar_type(p.info.dtype)).contiguous());
      entry.bytes = {static_cast<const std::byte*>(dense->const_data_ptr()), dense->nbytes()};
      bundle.owners.push_back(std::move(dense));
    }
    index[entry.name] = bundle.tensors.size();
    bundle.tensors.push_back(std::move(entry));
  }
  return bundle;
}

Originals::Originals(const CompressRun& call) {
  const CompressOptions& options = call.options;
  if (options.from_scratch || (options.group && options.group->rank() != 0)) return;
  if (call.originals) {
    values_ = model_bundle(call.model, call.originals->values());
    return;
  }
  values_ = model_bundle(call.model);
  for (TensorEntry& entry : values_->tensors) {
    auto copy = std::make_shared<std::vector<std::byte>>(entry.bytes.begin(), entry.bytes.end());
    entry.bytes = *copy;
    values_->owners.push_back(std::move(copy));
  }
}

std::vector<StoredTensor> Originals::compare(const CompressRun& call,
                                             const std::vector<std::byte>& file) const {
  const ArtifactReader artifact = ArtifactReader::from_bytes(file, "the file");
  if (!values_) return stored_tensors(artifact);
  const std::vector<NamedParameter> expanded = expand(artifact, call.registry);
  std::vector<StoredTensor> tensors = compare_with_source(
      artifact, *values_, [&](std::size_t i) { return bytes_of(expanded[i].tensor); });
  const std::string warning = lost_energy_warning(tensors);
  if (!warning.empty() && call.options.tell) call.options.tell(warning);
  return tensors;
}

}  // namespace gbcompress
