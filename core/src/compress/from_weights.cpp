#include "compress/from_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "format/tensor_bundle.h"
#include "gbcompress/weights.h"

namespace gbcompress {
namespace {

/// The model's tensors as they are now, in its order; tied ones share their bytes.
TensorBundle bundle_of(const Model& model) {
  TensorBundle bundle;
  std::unordered_map<std::string, std::size_t> index;
  for (const NamedParameter& p : model.tensors()) {
    TensorEntry entry{p.info.name, p.info.dtype, p.info.shape, {}};
    if (const auto first = index.find(p.tied_to); first != index.end()) {
      entry.bytes = bundle.tensors[first->second].bytes;
    } else {
      auto values = std::make_shared<at::Tensor>(
          p.tensor.detach().to(at::kCPU, to_scalar_type(p.info.dtype)).contiguous());
      entry.bytes = {static_cast<const std::byte*>(values->const_data_ptr()), values->nbytes()};
      bundle.owners.push_back(std::move(values));
    }
    index[entry.name] = bundle.tensors.size();
    bundle.tensors.push_back(std::move(entry));
  }
  return bundle;
}

}  // namespace

bool is_from_weights(const Job& job) {
  const BottleneckOptions& options = job.options.bottleneck;
  const bool gnets =
      options.coding == Coding::kCoded ||
      std::any_of(options.layers.begin(), options.layers.end(),
                  [](const LayerRule& rule) { return rule.mode == WeightMode::kGenerated; });
  return job.residual() && !job.trained && !job.allocation && !gnets && !job.judge;
}

void write_from_weights(Job& job) {
  job.report.allocation = "the weights alone";
  if (job.options.group && job.options.group->rank() != 0) return;
  WeightsOptions options{.measure = job.options.train.rate.measure,
                         .quantiser = job.options.train.rate.quantiser,
                         .arch = job.model.arch(),
                         .settings = job.options.settings,
                         .overwrite = job.options.overwrite};
  options.max_error = job.options.target.max_error;
  if (!options.max_error) options.max_bytes = std::max<std::int64_t>(job.wanted_bytes, 1);
  for (const LayerRule& rule : job.options.bottleneck.layers)
    if (rule.mode == WeightMode::kRaw) options.exact.push_back(rule.match);
  const at::NoGradGuard no_grad;
  WeightsReport written = compress_weights(bundle_of(job.model), job.options.output, options);
  job.report.weight_error = written.total_error;
  job.report.plain_parameters = job.report.parameters;
  job.report.target_met = written.target_met;
  job.report.target_note = written.target_note;
  job.report.tensors = std::move(written.tensors);
}

}  // namespace gbcompress
