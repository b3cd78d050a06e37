#include "compress/describe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>

#include "bottleneck/internals.h"
#include "bottleneck/parameter_gnets.h"

namespace gbcompress {
namespace {

double weight_error(const GenomicBottleneck& bottleneck) {
  const at::NoGradGuard no_grad;
  double sum = 0, count = 0;
  for (const auto& layer : bottleneck.layers()) {
    const at::Tensor original = layer.original.to(at::kDouble);
    const double variance =
        std::max(original.numel() > 1 ? original.var().item<double>() : 1.0, 1e-20);
    sum += (layer.weights.to(at::kDouble) - original).square().sum().item<double>() / variance;
    count += static_cast<double>(original.numel());
  }
  return count > 0 ? sum / count : 0;
}

/// Where step sizes of untrained integers come from.
void describe_steps(const CompressRun& call, const PlanResult& result, CompressionReport& report) {
  report.allocation = "the weights (data-free)";
  if (result.method != Method::kCalibrated || result.made.rule.empty()) return;
  report.allocation =
      std::to_string(call.calibrated->samples()) + " training samples, " + result.made.rule;
  report.corrected_norms = call.calibrated->corrected_norms();
}

/// What the bottleneck knows and the file does not say.
void describe_bottleneck(const CompressRun& call, const GenomicBottleneck& bottleneck,
                         CompressionReport& report) {
  report.gnet_parameters = gnet_parameters(bottleneck);
  report.plain_parameters = plain_parameters(bottleneck);
  report.generated_tensors = static_cast<std::int64_t>(bottleneck.layers().size());
  report.description = bottleneck.describe();
  if (!call.strategy_text.empty()) report.description += call.strategy_text + "\n";
  report.weight_error =
      call.quantized() ? BottleneckIntegers::relative_error(bottleneck) : weight_error(bottleneck);
}

}  // namespace

void describe_original(const CompressRun& call, CompressionReport& report) {
  report.input_bytes = call.input_bytes;
  for (const NamedParameter& p : call.model.tensors())
    if (p.trainable && p.tied_to.empty()) report.parameters += p.info.elements();
  if (!call.data) return;
  report.metric = call.data->metric;
  const Quality quality = measure(call.model, call.data->test, call.data->metric, call.progress);
  report.before = quality.metric;
  report.top5_before = quality.top5;
}

void describe(const CompressRun& call, const PlanResult& result,
              const std::optional<GenomicBottleneck>& bottleneck, CompressionReport& report) {
  const Candidate& made = result.made;
  report.plan = call.plan;
  report.method = call.plan.name(result.method);
  report.method_reason = result.reason;
  report.target_met = made.target_met;
  report.target_note = made.note;
  if (made.weights) report.notes = made.weights->notes;
  report.attempt_taken = made.taken;
  if (call.quantized() && !call.trained) describe_steps(call, result, report);
  if (!bottleneck) {
    report.plain_parameters = report.parameters;
    if (made.weights) report.weight_error = made.weights->total_error;
    return;
  }
  describe_bottleneck(call, *bottleneck, report);
  if (made.weights) report.weight_error = made.weights->total_error;
  report.attempts = call.trained ? made.attempts : 0;
  report.lambda = made.lambda;
  report.train = call.options.train;
  report.learning_rate = call.learning_rate();
  report.step_speed = call.options.bottleneck.step_speed;
}

}  // namespace gbcompress
