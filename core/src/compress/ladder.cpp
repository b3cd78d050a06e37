#include "compress/ladder.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

#include "bottleneck/internals.h"
#include "compress/attempt.h"
#include "compress/from_weights.h"
#include "compress/held_out.h"
#include "compress/losses.h"
#include "quantize/encode_weights.h"

namespace gbcompress {
namespace {

/// A file of one method, and its quality.
struct Judged {
  Outcome outcome;
  bool fits = false;  ///< has the target size
  HeldOut::Drop drop;

  bool suffices() const { return fits && !drop.measurable(); }
};

class Ladder {
 public:
  explicit Ladder(Job& job) : job_(job), held_out_(job.model, job.split->judge, job.data->metric) {}

  std::optional<Outcome> climb() {
    job_.trained = false;
    const std::int64_t epochs = std::exchange(job_.options.train.epochs, 0);
    Judged data_free = this->data_free();
    if (data_free.suffices()) return taken(std::move(data_free), "data-free", "");
    job_.originals->restore(job_.model);
    if (!job_.allocation) return without_calibration(std::move(data_free), epochs);
    job_.allocation->weigh(*job_.originals, job_.options.group);
    Judged calibrated = this->calibrated();
    if (calibrated.suffices())
      return taken(std::move(calibrated), "calibrated", "; the data-free file: " + said(data_free));
    if (const char* why = no_training())
      return taken(smallest_calibrated(std::move(calibrated)), "calibrated", why);
    train("the calibrated file: " + said(calibrated), epochs);
    return {};
  }

 private:
  std::optional<Outcome> without_calibration(Judged data_free, std::int64_t epochs) {
    if (const char* why = no_training()) return taken(std::move(data_free), "data-free", why);
    train("the data-free file: " + said(data_free), epochs);
    return {};
  }

  /// Why nothing may be trained; null: it may.
  const char* no_training() const {
    if (job_.effort == Effort::kFast) return "; effort fast never trains";
    return time_is_left() ? nullptr : "; no time is left to train";
  }

  void train(const std::string& reason, std::int64_t epochs) {
    job_.originals->restore(job_.model);
    job_.options.train.epochs = epochs;
    job_.report.method_reason = reason;
    if (job_.options.tell) job_.options.tell("training: " + reason);
  }

  /// Of rank 0, on every rank.
  HeldOut::Drop shared(const HeldOut::Drop& drop) const {
    Group* const group = job_.options.group;
    return {of_rank_0(group, drop.drop), of_rank_0(group, drop.standard_error)};
  }
  bool leads() const { return !job_.options.group || job_.options.group->rank() == 0; }

  /// Expands the file into the model and compares it.
  HeldOut::Drop measured(const std::vector<std::byte>& file) {
    HeldOut::Drop drop;
    if (leads()) {
      load_tensors(job_.model, expand(ArtifactReader::from_bytes(file, "the file"), job_.registry));
      drop = held_out_.drop(job_.model);
    }
    return shared(drop);
  }

  Judged data_free() {
    Judged candidate;
    if (leads()) {
      EncodedWeights encoded = encode_weights(
          model_bundle(job_.model), job_.options.output.parent_path(), weights_options(job_));
      candidate.outcome.file = std::move(encoded.file);
      candidate.outcome.weights = std::move(encoded.report);
    }
    return with_quality(std::move(candidate));
  }

  Judged calibrated() {
    Judged candidate;
    Attempts attempts(job_);
    candidate.outcome.bottleneck.emplace(attempts.run(job_.options.bottleneck, job_.wanted_bytes));
    candidate.outcome.file = BottleneckInternals::encode(*candidate.outcome.bottleneck);
    return with_quality(std::move(candidate));
  }

  Judged with_quality(Judged candidate) {
    const auto bytes = static_cast<double>(candidate.outcome.file.size());
    candidate.fits = of_rank_0(job_.options.group, bytes) <= static_cast<double>(job_.wanted_bytes);
    candidate.drop = measured(candidate.outcome.file);
    return candidate;
  }

  /// The one of the target size unless its model is collapsed: then the smallest whose model is
  /// not.
  Judged smallest_calibrated(Judged candidate) {
    const bool usable = of_rank_0(job_.options.group, job_.above_chance->kept(job_.model)) >=
                        AboveChance::kLeastKept;
    if (candidate.fits && usable) return candidate;
    job_.originals->restore(job_.model);
    Judged smallest{calibrated_size(job_)};
    smallest.drop = measured(smallest.outcome.file);
    return smallest;
  }

  std::string said(const Judged& candidate) const {
    if (candidate.fits) return held_out_.text(candidate.drop);
    return formatted("%zu bytes, above the target", candidate.outcome.file.size());
  }

  Outcome taken(Judged candidate, const char* method, const std::string& why) {
    CompressReport& report = job_.report;
    report.method = method;
    report.method_reason = held_out_.text(candidate.drop) + why;
    return std::move(candidate.outcome);
  }

  bool time_is_left() const {
    if (!job_.options.minutes) return true;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - job_.start;
    return of_rank_0(job_.options.group,
                     spent.count() < 60 * kTrainingPart * *job_.options.minutes) > 0;
  }

  Job& job_;
  const HeldOut held_out_;
};

}  // namespace

std::optional<Outcome> cheapest_without_training(Job& job) { return Ladder(job).climb(); }

}  // namespace gbcompress
