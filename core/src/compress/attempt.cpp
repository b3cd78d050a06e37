#include "compress/attempt.h"

#include "gbcompress/error.h"
#include "train/land.h"

namespace gbcompress {
namespace {

/// Files of integers that are smaller than this many times their settings go without those.
constexpr std::size_t kSettingsShare = 200;

}  // namespace

/// G-nets that are integers have no other.
Coding Attempts::coding(const GenomicBottleneck& bottleneck) const {
  return bottleneck.coded_gnets() ? Coding::kCoded : job_.options.coding;
}

std::vector<std::byte> Attempts::file(const GenomicBottleneck& bottleneck) const {
  const auto with = [&](const std::string& settings) {
    ArtifactWriter writer(job_.model.arch(), settings);
    bottleneck.write_to(writer, coding(bottleneck));
    return writer.encode();
  };
  const std::string& settings = job_.options.settings;
  std::vector<std::byte> bytes = with(settings);
  if (job_.priced() && bytes.size() < kSettingsShare * settings.size()) bytes = with("");
  return bytes;
}

std::int64_t Attempts::bytes(const GenomicBottleneck& bottleneck) const {
  return static_cast<std::int64_t>(file(bottleneck).size());
}

GenomicBottleneck Attempts::begin(const BottleneckOptions& sized,
                                  std::shared_ptr<const State>* fresh) {
  const CompressOptions& options = job_.options;
  GenomicBottleneck bottleneck(job_.model.tensors(), job_.registry, sized, options.group);
  if (options.tell)
    for (const std::string& note : bottleneck.placement_notes()) options.tell(note);
  at.phase = "fit";
  at.done = 0;
  if (fresh) *fresh = std::make_shared<const State>(bottleneck.training_state());
  if (job_.checkpoints.resumed()) at = job_.checkpoints.restore(bottleneck);
  return bottleneck;
}

void Attempts::train(GenomicBottleneck& bottleneck, const TrainOptions& options) {
  TrainingCheckpoints& checkpoints = job_.checkpoints;
  const auto control = [&] {
    return LoopControl{at.done, [&](std::int64_t done) {
                         at.done = done;
                         checkpoints.after_step(at, bottleneck);
                       }};
  };
  try {
    if (at.phase == "fit") {
      fit_weights(bottleneck, options.fit_steps, options.schedule, job_.progress, control());
      bottleneck.reset_optimizers();
      at.phase = "train";
      at.done = 0;
    }
    Group* const group = job_.options.group;
    const Traffic before = group ? group->traffic() : Traffic();
    const std::int64_t first = at.done;
    if (job_.train && options.loss != Loss::kWeights)
      gbcompress::train(job_.model, bottleneck, *job_.train, options, job_.teacher, job_.progress,
                        control());
    if (group && at.done > first)
      bytes_per_step = static_cast<double>((group->traffic() - before).bytes()) /
                       static_cast<double>(at.done - first);
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) checkpoints.save_before_failing(at, bottleneck);
    throw;
  }
}

void Attempts::settle(GenomicBottleneck& bottleneck, std::int64_t wanted) const {
  bottleneck.gather();
  bottleneck.round_to(coding(bottleneck));
  const auto file_bytes = [&](const GenomicBottleneck& now) { return bytes(now); };
  const CompressOptions& options = job_.options;
  // G-nets are always trained, at least to fit the weights.
  if (!job_.residual() || job_.trained) {
    if (job_.priced() && wanted > 0) land(bottleneck, wanted, file_bytes);
  } else if (options.target.max_error) {
    land_untrained(bottleneck, *options.target.max_error, options.train.rate.quantiser);
  } else if (job_.allocation) {
    job_.allocation->land(job_.model, bottleneck, wanted, file_bytes);
  } else {
    land_untrained(bottleneck, wanted, options.train.rate, file_bytes);
  }
  bottleneck.train(false);
  bottleneck.predict_weights();
}

GenomicBottleneck Attempts::run(const BottleneckOptions& sized, std::int64_t wanted) {
  GenomicBottleneck bottleneck = begin(sized);
  train(bottleneck, job_.options.train);
  settle(bottleneck, wanted);
  return bottleneck;
}

}  // namespace gbcompress
