#include "compress/attempt.h"

#include <algorithm>

#include "bottleneck/internals.h"
#include "bottleneck/sized_gnets.h"
#include "compress/notes.h"
#include "gbcompress/error.h"
#include "train/untrained_steps.h"

namespace gbcompress {
RateOptions Attempts::rate(const TrainOptions& options) const {
  const bool learns = call_.train && options.loss != Loss::kWeights;
  RateOptions rate = learns ? rate_of(options, *call_.train) : RateOptions(options.rate);
  rate.steps = std::max<std::int64_t>(rate.steps, 1);
  return rate;
}

GenomicBottleneck Attempts::begin(const BottleneckOptions& sized,
                                  std::shared_ptr<const State>* fresh) {
  const CompressOptions& options = call_.options;
  BottleneckOptions whole = sized;
  whole.rate = rate(options.train);
  GenomicBottleneck bottleneck(call_.model.tensors(), call_.registry, whole, options.group);
  if (options.tell)
    for (const std::string& note : BottleneckRanks::placement_notes(bottleneck)) options.tell(note);
  at.phase = "fit";
  at.done = 0;
  if (fresh) *fresh = std::make_shared<const State>(bottleneck.training_state());
  if (call_.checkpoints.resumed()) at = call_.checkpoints.restore(bottleneck);
  return bottleneck;
}

void Attempts::train(GenomicBottleneck& bottleneck, const TrainOptions& options) {
  TrainingCheckpoints& checkpoints = call_.checkpoints;
  std::unique_ptr<Strategy> strategy;
  const auto control = [&] {
    return LoopControl{.start = at.done,
                       .after_step =
                           [&](std::int64_t done) {
                             at.done = done;
                             checkpoints.after_step(at, bottleneck, strategy.get());
                           },
                       .measure = [&] { return measure_test_split(); }};
  };
  try {
    if (at.phase == "fit") {
      fit_weights(bottleneck, options.fit_steps, options.schedule, call_.progress, control());
      bottleneck.restart();
      at.phase = "train";
      at.done = 0;
    }
    Group* const group = call_.options.group;
    const Traffic before = group ? group->traffic() : Traffic();
    const std::int64_t first = at.done;
    if (call_.train && options.loss != Loss::kWeights) {
      strategy = make_strategy(
          options.strategy, strategy_setup(call_.model, bottleneck, *call_.train, options, group),
          call_.registry);
      call_.strategy_text = strategy->describe();
      checkpoints.restore(*strategy);
      gbcompress::train(call_.model, bottleneck, *call_.train, options, call_.teacher,
                        call_.progress, control(), strategy.get());
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

std::map<std::string, double> Attempts::measure_test_split() const {
  const Metric metric = call_.data->metric;
  const std::string name(metric_name(metric));
  const Quality quality = measure(call_.model, call_.data->test, metric);
  if (call_.options.tell)
    call_.options.tell(formatted("step %lld: %s %.5g on the test split",
                                 static_cast<long long>(at.done + 1), name.c_str(),
                                 quality.metric));
  std::map<std::string, double> measured = {{"test_" + name, quality.metric}};
  if (quality.top5) measured["test_top5_percent"] = *quality.top5;
  return measured;
}

void Attempts::choose_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  const CompressOptions& options = call_.options;
  if (options.target.max_error)
    quantize_to_error(bottleneck, *options.target.max_error, options.train.rate.quantizer);
  else if (wanted == 0)
    throw Error(Errc::kUsage,
                "quantized weights without training need a target size or a target error");
  else
    quantize_to_size(bottleneck, wanted, options.train.rate.quantizer);
}

void Attempts::settle(GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  // G-nets are always trained, at least to fit the weights.
  if (!call_.trained && BottleneckIntegers::any(bottleneck)) choose_untrained(bottleneck, wanted);
  bottleneck.finish();
}

GenomicBottleneck Attempts::run(const BottleneckOptions& sized, std::int64_t wanted) {
  GenomicBottleneck bottleneck = begin(sized);
  train(bottleneck, call_.options.train);
  settle(bottleneck, wanted);
  return bottleneck;
}

BottleneckOptions sized_to(const CompressRun& call, std::int64_t bytes) {
  const CompressOptions& o = call.options;
  if (call.quantized()) return o.bottleneck;
  return options_for_size(call.model.tensors(), call.registry, o.bottleneck, bytes);
}

}  // namespace gbcompress
