#include "compress/attempt.h"

#include <algorithm>
#include <chrono>

#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "train/land.h"

namespace gbcompress {
namespace {

/// The part of the minutes after which weights are not refitted, which takes the most time.
constexpr double kBeforeRefit = 0.3;

}  // namespace

RateOptions Attempts::rate(const TrainOptions& options) const {
  const bool learns = job_.train && options.loss != Loss::kWeights;
  RateOptions rate = learns ? rate_of(options, *job_.train) : RateOptions(options.rate);
  rate.steps = std::max<std::int64_t>(rate.steps, 1);
  return rate;
}

GenomicBottleneck Attempts::begin(const BottleneckOptions& sized,
                                  std::shared_ptr<const State>* fresh) {
  const CompressOptions& options = job_.options;
  BottleneckOptions whole = sized;
  whole.rate = rate(options.train);
  GenomicBottleneck bottleneck(job_.model.tensors(), job_.registry, whole, options.group);
  if (options.tell)
    for (const std::string& note : BottleneckInternals::placement_notes(bottleneck))
      options.tell(note);
  // The model holds its first values now; a run that is taken up may not.
  if (job_.allocation && !job_.trained && !job_.checkpoints.resumed())
    BottleneckInternals::share_values(bottleneck, job_.originals->values());
  at.phase = "fit";
  at.done = 0;
  if (fresh) *fresh = std::make_shared<const State>(bottleneck.training_state());
  if (job_.checkpoints.resumed()) at = job_.checkpoints.restore(bottleneck);
  return bottleneck;
}

void Attempts::train(GenomicBottleneck& bottleneck, const TrainOptions& options) {
  TrainingCheckpoints& checkpoints = job_.checkpoints;
  std::unique_ptr<Strategy> strategy;
  const auto control = [&] {
    return LoopControl{at.done, [&](std::int64_t done) {
                         at.done = done;
                         checkpoints.after_step(at, bottleneck, strategy.get());
                       }};
  };
  try {
    if (at.phase == "fit") {
      fit_weights(bottleneck, options.fit_steps, options.schedule, job_.progress, control());
      bottleneck.restart();
      at.phase = "train";
      at.done = 0;
    }
    Group* const group = job_.options.group;
    const Traffic before = group ? group->traffic() : Traffic();
    const std::int64_t first = at.done;
    if (job_.train && options.loss != Loss::kWeights) {
      strategy = make_strategy(options.strategy,
                               strategy_setup(job_.model, bottleneck, *job_.train, options, group),
                               job_.registry);
      checkpoints.restore(*strategy);
      gbcompress::train(job_.model, bottleneck, *job_.train, options, job_.teacher, job_.progress,
                        control(), strategy.get());
    }
    if (group && at.done > first)
      bytes_per_step = static_cast<double>((group->traffic() - before).bytes()) /
                       static_cast<double>(at.done - first);
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted)
      checkpoints.save_before_failing(at, bottleneck, strategy.get());
    throw;
  }
}

/// Whether the minutes that were given are mostly left.
bool Attempts::time_to_refit() const {
  if (!job_.options.minutes) return true;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - job_.start;
  return of_rank_0(job_.options.group, spent.count() < 60 * kBeforeRefit * *job_.options.minutes) >
         0;
}

void Attempts::choose_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  const CompressOptions& options = job_.options;
  if (options.target.max_error)
    land_untrained(bottleneck, *options.target.max_error, options.train.rate.quantiser);
  else if (wanted == 0)
    throw Error(Errc::kUsage,
                "quantized weights without training need a target size or a target error");
  else if (job_.allocation)
    job_.allocation->land(bottleneck, wanted, time_to_refit());
  else
    land_untrained(bottleneck, wanted, options.train.rate);
}

void Attempts::settle(GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  // G-nets are always trained, at least to fit the weights.
  if (!job_.trained && BottleneckInternals::has_residual(bottleneck))
    choose_untrained(bottleneck, wanted);
  bottleneck.finish();
}

GenomicBottleneck Attempts::run(const BottleneckOptions& sized, std::int64_t wanted) {
  GenomicBottleneck bottleneck = begin(sized);
  train(bottleneck, job_.options.train);
  settle(bottleneck, wanted);
  return bottleneck;
}

}  // namespace gbcompress
