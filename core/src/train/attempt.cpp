#include "train/attempt.h"

#include "gbcompress/error.h"
#include "train/land.h"

namespace gbcompress {
namespace {

/// Files of integers that are smaller than this many times their settings go without those.
constexpr std::size_t kSettingsShare = 200;

/// G-nets that are integers have no other.
Coding coding_of(const GenomicBottleneck& bottleneck, const CompressOptions& options) {
  return bottleneck.coded_gnets() ? Coding::kCoded : options.coding;
}

}  // namespace

std::vector<std::byte> Attempt::file(const GenomicBottleneck& bottleneck) const {
  const auto with = [&](const std::string& settings) {
    ArtifactWriter writer(model.arch(), settings);
    bottleneck.write_to(writer, coding_of(bottleneck, options));
    return writer.encode();
  };
  std::vector<std::byte> bytes = with(options.settings);
  if ((options.bottleneck.mode == WeightMode::kResidual || bottleneck.coded_gnets()) &&
      bytes.size() < kSettingsShare * options.settings.size())
    bytes = with("");
  return bytes;
}

std::int64_t Attempt::file_bytes(const GenomicBottleneck& bottleneck) const {
  return static_cast<std::int64_t>(file(bottleneck).size());
}

/// The integers that are stored.
void Attempt::choose(GenomicBottleneck& bottleneck) const {
  const bool residual = options.bottleneck.mode == WeightMode::kResidual;
  if (!residual && !bottleneck.coded_gnets()) return;
  // G-nets are always trained, at least to fit the weights.
  const bool fitted = trained || !residual;
  const FileBytes bytes = [&](const GenomicBottleneck& now) { return file_bytes(now); };
  if (fitted) {
    if (wanted_bytes > 0) land(bottleneck, wanted_bytes, bytes);
  } else if (options.target.max_error)
    land_untrained(bottleneck, *options.target.max_error, options.train.rate.quantiser);
  else if (allocation)
    allocation->land(model, bottleneck, wanted_bytes, bytes);
  else
    land_untrained(bottleneck, wanted_bytes, options.train.rate, bytes);
}

TrainOptions Attempt::train_options() const {
  TrainOptions result = options.train;
  result.rate = rate;
  result.freeze_norms = result.freeze_norms || freeze_norms;
  return result;
}

GenomicBottleneck Attempt::run(const BottleneckOptions& sized) {
  GenomicBottleneck bottleneck(model.tensors(), registry, sized, options.group);
  if (options.tell)
    for (const std::string& note : bottleneck.placement_notes()) options.tell(note);
  RunPosition at{number, "fit", 0};
  if (checkpoints.resumed()) {
    at = *checkpoints.resumed();
    checkpoints.restore(bottleneck);
  }
  const auto control = [&] {
    return LoopControl{at.done, [&](std::int64_t done) {
                         at.done = done;
                         checkpoints.after_step(at, bottleneck);
                       }};
  };
  try {
    if (at.phase == "fit") {
      fit_weights(bottleneck, options.train.fit_steps, options.train.schedule, progress, control());
      bottleneck.reset_optimizers();
      at = {number, "train", 0};
    }
    const Traffic before = options.group ? options.group->traffic() : Traffic();
    const std::int64_t first = at.done;
    if (train_split && options.train.loss != Loss::kWeights)
      train(model, bottleneck, *train_split, train_options(), teacher, progress, control());
    if (options.group && at.done > first)
      bytes_per_step = static_cast<double>((options.group->traffic() - before).bytes()) /
                       static_cast<double>(at.done - first);
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) checkpoints.save_before_failing(at, bottleneck);
    throw;
  }
  bottleneck.gather();
  bottleneck.round_to(coding_of(bottleneck, options));
  choose(bottleneck);
  bottleneck.train(false);
  bottleneck.predict_weights();
  return bottleneck;
}

}  // namespace gbcompress
