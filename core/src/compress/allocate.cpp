#include "compress/allocate.h"

#include "bottleneck/internals.h"
#include "train/calibrate.h"

namespace gbcompress {
namespace {

/// Corrected norms take a few bytes more or less than those that were landed with.
constexpr int kCoarser = 16;

}  // namespace

Allocation::Allocation(Model& model, const Dataset& samples, const TrainOptions& options)
    : options_(options),
      samples_(calibration_samples(samples, options.rate.calibration, options.seed)),
      norms_(model, samples_) {}

void Allocation::weigh(Model& model) {
  factors_ = step_factors(model.tensors(), tensor_importance(model, samples_, options_.seed),
                          options_.rate.temper);
}

void Allocation::land(Model& model, GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  BottleneckInternals::set_step_factors(bottleneck, factors_);
  TrainRateOptions even = options_.rate;
  even.evenness = 0;
  double step = land_untrained(bottleneck, wanted, even);
  if (norms_.size() == 0) return;
  for (int i = 0; i < kCoarser; ++i, step = next_coarser(step)) {
    BottleneckInternals::quantise(bottleneck, step, 0, even.quantiser);
    bottleneck.predict_weights();
    norms_.apply(model);
    fold_batch_norms(model);
    BottleneckInternals::retake(bottleneck, norms_.vectors());
    BottleneckInternals::quantise(bottleneck, step, 0, even.quantiser);
    if (bottleneck.bytes() <= wanted) return;
  }
}

}  // namespace gbcompress
