#include "compress/from_weights.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "compress/losses.h"
#include "gbcompress/weights.h"

namespace gbcompress {
bool is_from_weights(const Job& job) {
  const BottleneckOptions& options = job.options.bottleneck;
  const bool gnets =
      options.coding == Coding::kCoded ||
      std::any_of(options.layers.begin(), options.layers.end(),
                  [](const LayerRule& rule) { return rule.mode == WeightMode::kGenerated; });
  return job.residual() && !job.trained && !job.allocation && !gnets && !job.judge;
}

WeightsOptions weights_options(const Job& job) {
  WeightsOptions options{.measure = job.options.train.rate.measure,
                         .quantiser = job.options.train.rate.quantiser,
                         .arch = job.model.arch(),
                         .settings = job.options.settings,
                         .overwrite = job.options.overwrite};
  options.max_error = job.options.target.max_error;
  if (!options.max_error) options.max_bytes = std::max<std::int64_t>(job.wanted_bytes, 1);
  for (const NamedParameter& p : job.model.tensors())
    if (mode_of(p.info.name, job.options.bottleneck) == WeightMode::kExact)
      options.exact.push_back(p.info.name);
  return options;
}

std::optional<ArtifactReader> write_from_weights(Job& job) {
  job.report.allocation = "the weights (data-free)";
  job.report.method = "data-free";
  if (job.options.group && job.options.group->rank() != 0) return {};
  WeightsOptions options = weights_options(job);
  std::optional<ArtifactReader> artifact;
  options.look = [&](const ArtifactReader& file) { artifact = file; };
  const at::NoGradGuard no_grad;
  WeightsReport written = compress_weights(model_bundle(job.model), job.options.output, options);
  job.report.weight_error = written.total_error;
  job.report.plain_parameters = job.report.parameters;
  job.report.target_met = written.target_met;
  job.report.target_note = written.target_note;
  job.report.tensors = std::move(written.tensors);
  return artifact;
}

}  // namespace gbcompress
