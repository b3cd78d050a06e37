#include "compress/timing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bottleneck/internals.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// The first one also warms up; the quickest counts.
constexpr int kSteps = 4;
/// Times in an attempt that the coder is asked.
constexpr double kLooks = 100;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double timed_step(Job& job, GenomicBottleneck& bottleneck, const Batch& batch) {
  const auto start = Clock::now();
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  if (job.options.train.loss == Loss::kDistill) {
    const at::NoGradGuard no_grad;
    job.teacher->train(false);
    job.teacher->forward(batch.inputs);
  }
  // Any loss takes about as long.
  job.model.forward(batch.inputs).square().mean().backward();
  bottleneck.backward();
  bottleneck.step(0);
  return seconds_since(start);
}

}  // namespace

Timing time_training(Job& job) {
  const at::AutoGradMode with_grad(true);
  std::vector<at::Tensor> values;
  for (const NamedParameter& p : job.model.tensors()) values.push_back(p.tensor.detach().clone());
  const Batch batch = job.train->range(0, std::min(job.options.train.batch, job.train->size()));
  Timing timing;
  {
    BottleneckOptions timed = job.options.bottleneck;
    timed.rate = rate_of(job.options.train, *job.train);
    timed.rate.steps = 0;  // the coder is asked before the first step, and not again
    GenomicBottleneck bottleneck(job.model.tensors(), job.registry, timed);
    job.model.train(false);
    for (int i = 0; i < kSteps; ++i) {
      const double seconds = timed_step(job, bottleneck, batch);
      timing.step = i == 0 ? seconds : std::min(timing.step, seconds);
    }
    const auto start = Clock::now();
    BottleneckInternals::ask_coder(bottleneck);
    timing.look = seconds_since(start);
    bottleneck.zero_grad();
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) job.model.tensors()[i].tensor.copy_(values[i]);
  Group* const group = job.options.group;
  return {of_rank_0(group, timing.step), of_rank_0(group, timing.look)};
}

std::int64_t all_steps(const Job& job, std::int64_t epochs) {
  const std::int64_t batch = job.options.train.batch;
  const std::int64_t per_epoch = (job.train->size() + batch - 1) / batch;
  return per_epoch * (epochs + (job.attempts - 1) * later_epochs(epochs));
}

double all_seconds(const Job& job, const Timing& timing, std::int64_t epochs) {
  const double looks = job.priced() ? kLooks * static_cast<double>(job.attempts) : 0;
  return static_cast<double>(all_steps(job, epochs)) * timing.step + looks * timing.look;
}

}  // namespace gbcompress
