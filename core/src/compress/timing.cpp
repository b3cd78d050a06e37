#include "compress/timing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bottleneck/internals.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// The first one also warms up; the quickest counts.
constexpr int kSteps = 4;
constexpr std::int64_t kForwardSamples = 64;
/// Refreshes of the entropy model in an attempt.
constexpr double kRefreshes = 100;

/// Without training: seconds of a weight data-free; with each rule of rounding that is tried, of a
/// weight for the sizes that are coded, and of a multiply-add of error feedback.
constexpr double kDataFreeSeconds = 1.5e-6, kCodingSeconds = 6e-6, kFeedbackSeconds = 3e-9;
constexpr double kRules = 5;
/// Of one calibration sample, in forward passes: forward and backward, and its part of the second
/// moments, whose products are those of the layers times `moments` over `products`.
constexpr double kPasses = 3, kMomentCost = 2;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Numbers of a model's weights: their products for one sample, entries of their second moments,
/// multiply-adds of error feedback over rows and columns.
struct Work {
  double weights = 0, products = 0, moments = 0, feedback = 0;
};

Work work_of(const Model& model) {
  Work work;
  for (const NamedParameter& p : model.tensors()) {
    if (!p.trainable || !p.tied_to.empty()) continue;
    const auto elements = static_cast<double>(p.info.elements());
    work.weights += elements;
    if (p.info.shape.size() < 2) continue;
    const auto outputs = static_cast<double>(std::max<std::int64_t>(p.info.shape[0], 1));
    const double inputs = elements / outputs;
    work.products += elements;
    work.moments += inputs * inputs + outputs * outputs;
    work.feedback += elements * (inputs + outputs) / 2;
  }
  return work;
}

/// Of one sample.
double forward_seconds(Model& model, const Dataset& data) {
  const at::NoGradGuard no_grad;
  const Batch batch = data.range(0, std::min<std::int64_t>(kForwardSamples, data.size()));
  model.train(false);
  double least = 0;
  for (int i = 0; i < kSteps; ++i) {
    const auto start = Clock::now();
    model.forward(batch.inputs);
    const double seconds = seconds_since(start);
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least / static_cast<double>(std::max<std::int64_t>(batch.inputs.size(0), 1));
}

double timed_step(CompressRun& call, GenomicBottleneck& bottleneck, const Batch& batch) {
  const auto start = Clock::now();
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  if (call.options.train.loss == Loss::kDistill) {
    const at::NoGradGuard no_grad;
    call.teacher->train(false);
    call.teacher->forward(batch.inputs);
  }
  // Any loss takes about as long.
  call.model.forward(batch.inputs).square().mean().backward();
  bottleneck.backward();
  bottleneck.step(0);
  return seconds_since(start);
}

}  // namespace

Timing time_training(CompressRun& call) {
  const at::AutoGradMode with_grad(true);
  const ModelSnapshot values(call.model);
  const Batch batch = call.train->range(0, std::min(call.options.train.batch, call.train->size()));
  Timing timing;
  {
    BottleneckOptions timed = call.options.bottleneck;
    timed.rate = rate_of(call.options.train, *call.train);
    timed.rate.steps = 0;  // the entropy model is refreshed before the first step only
    GenomicBottleneck bottleneck(call.model.tensors(), call.registry, timed);
    call.model.train(false);
    for (int i = 0; i < kSteps; ++i) {
      const double seconds = timed_step(call, bottleneck, batch);
      timing.step = i == 0 ? seconds : std::min(timing.step, seconds);
    }
    const auto start = Clock::now();
    BottleneckRate::refresh(bottleneck);
    timing.refresh = seconds_since(start);
    bottleneck.zero_grad();
  }
  values.restore(call.model);
  Group* const group = call.options.group;
  return {of_rank_0(group, timing.step), of_rank_0(group, timing.refresh)};
}

std::int64_t all_steps(const CompressRun& call, std::int64_t epochs) {
  const std::int64_t batch = call.options.train.batch;
  const std::int64_t per_epoch = (call.train->size() + batch - 1) / batch;
  return per_epoch * (epochs + (call.attempts - 1) * later_epochs(epochs));
}

double all_seconds(const CompressRun& call, const Timing& timing, std::int64_t epochs) {
  const double refreshes = call.has_rate() ? kRefreshes * static_cast<double>(call.attempts) : 0;
  return static_cast<double>(all_steps(call, epochs)) * timing.step + refreshes * timing.refresh;
}

std::int64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

UntrainedTiming untrained_timing(CompressRun& call) {
  const Work work = work_of(call.model);
  UntrainedTiming timing{kDataFreeSeconds * work.weights};
  if (!call.data) return timing;
  const double forward = forward_seconds(call.model, *call.train);
  timing.data_free += 2 * forward * static_cast<double>(call.data->test.size());
  const bool calibrates = call.options.train.loss != Loss::kWeights &&
                          call.options.train.rate.calibration > 0 && call.quantized();
  if (!calibrates) return timing;
  const auto samples = static_cast<double>(std::min(calibration_count(call), call.train->size()));
  const double each = kPasses + kMomentCost * work.moments / std::max(work.products, 1.0);
  timing.calibrated = samples * forward * each +
                      kRules * (kCodingSeconds * work.weights + kFeedbackSeconds * work.feedback);
  return timing;
}

}  // namespace gbcompress
