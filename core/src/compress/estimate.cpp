#include "compress/estimate.h"

#include "bottleneck/parameter_gnets.h"
#include "compress/check_options.h"
#include "compress/timing.h"

namespace gbcompress {
namespace {

/// Values of four bytes per parameter that a run holds beside what a timed step had: states of
/// attempts, files, what is compared. Untrained: originals, statistics, tries.
constexpr std::int64_t kValuesTrained = 12, kValuesUntrained = 12;
/// Bits a parameter of models that were trained into integers without a loss, or with a small one.
constexpr double kFewestBits = 0.15, kMostBits = 1.5;
/// Of exact float32 values, entropy-coded or not.
constexpr double kFewestExact = 16, kMostExact = 32;
/// Data-free, at errors from 0.1 to 0.0001 of their squares.
constexpr double kFewestUntrained = 1.5, kMostUntrained = 7;

/// Of the file: the target size, else what models of that many parameters have taken.
void estimate_bytes(const CompressRun& call, std::int64_t parameters, CompressionCost& cost) {
  const bool trained = call.may_train();
  const auto bytes = [&](double bits) {
    return static_cast<std::int64_t>(bits / 8 * static_cast<double>(parameters));
  };
  cost.least_bytes = cost.most_bytes = call.wanted_bytes();
  if (call.wanted_bytes() == 0) {
    cost.least_bytes = bytes(trained ? kFewestBits : kFewestUntrained);
    cost.most_bytes = bytes(trained ? kMostBits : kMostUntrained);
  }
  if (stores_exactly(call.options.bottleneck)) {
    cost.least_bytes = bytes(kFewestExact);
    cost.most_bytes = bytes(kMostExact);
  }
}

}  // namespace

CompressionPlan estimated_plan(CompressRun& call) {
  const bool trained = call.may_train(), cheaper = call.plan.compares_files;
  CompressionCost cost;
  const UntrainedTiming untrained =
      trained && !cheaper ? UntrainedTiming() : untrained_timing(call);
  if (trained && call.several_methods()) train_instead(call);
  CompressionPlan plan = call.plan;
  const std::int64_t parameters = elements_of(call.model);
  estimate_bytes(call, parameters, cost);
  cost.least_minutes = untrained.data_free / 60;
  cost.minutes = (untrained.data_free + untrained.calibrated) / 60;
  if (!cheaper) cost.least_minutes = cost.minutes;
  cost.memory_bytes =
      peak_memory_bytes() + 4 * parameters * (trained ? kValuesTrained : kValuesUntrained);
  if (trained) {
    cost.steps = all_steps(call, plan.train.epochs);
    const double training = all_seconds(call, time_training(call), plan.train.epochs) / 60;
    cost.minutes += training;
    if (!cheaper) cost.least_minutes = training;
    // Program, model and data are in memory by now, and a step was taken.
    cost.memory_bytes = peak_memory_bytes() + 4 * parameters * kValuesTrained;
  }
  plan.cost = cost;
  return plan;
}

}  // namespace gbcompress
