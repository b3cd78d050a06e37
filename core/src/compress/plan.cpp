#include "compress/plan.h"

#include "compress/timing.h"

namespace gbcompress {
namespace {

/// Numbers of four bytes that a trained parameter takes: the model's, its gradient, the latent and
/// its gradient, two moments, the scale, the original.
constexpr std::int64_t kNumbersTrained = 8, kNumbersUntrained = 3;
/// Bits a parameter of models that were trained into integers without a loss, or with a small one.
constexpr double kFewestBits = 0.15, kMostBits = 1.5;
/// Of the weights alone, at errors from 0.1 to 0.0001 of their squares.
constexpr double kFewestUntrained = 1.5, kMostUntrained = 7;
constexpr std::int64_t kProgramBytes = std::int64_t{130} << 20;

std::string method_of(const Job& job) {
  const char* names[] = {"g-nets generate weights", "integers times steps", "exact values"};
  std::string text = names[static_cast<int>(job.options.bottleneck.mode)];
  if (!job.trained) return text + (job.allocation ? ", chosen by training samples" : "");
  if (job.priced()) text += ", trained with what their bits cost";
  return text + (job.options.train.loss == Loss::kDistill ? ", taught by the model itself" : "");
}

}  // namespace

CompressPlan plan(Job& job) {
  CompressPlan plan;
  const CompressOptions& options = job.options;
  plan.method = method_of(job);
  plan.train = options.train;
  plan.learning_rate = options.bottleneck.residual_optimizer.lr;
  plan.step_speed = options.bottleneck.step_speed;
  std::int64_t parameters = 0;
  for (const NamedParameter& p : job.model.tensors())
    if (p.tied_to.empty()) parameters += p.info.elements();
  plan.memory_bytes =
      kProgramBytes + 4 * parameters * (job.trained ? kNumbersTrained : kNumbersUntrained);
  const auto bytes = [&](double bits) {
    return static_cast<std::int64_t>(bits / 8 * static_cast<double>(parameters));
  };
  plan.least_bytes = plan.most_bytes = job.wanted_bytes;
  if (job.wanted_bytes == 0) {
    plan.least_bytes = bytes(job.trained ? kFewestBits : kFewestUntrained);
    plan.most_bytes = bytes(job.trained ? kMostBits : kMostUntrained);
  }
  if (job.split && options.target.max_drop) plan.held_back = job.split->judge.size();
  if (job.split && options.target.no_loss) plan.held_back = job.split->judge.size();
  if (!job.trained) return plan;
  plan.training_samples = job.train->size();
  plan.attempts = job.attempts;
  plan.steps = all_steps(job, options.train.epochs);
  plan.minutes = all_seconds(job, time_training(job), options.train.epochs) / 60;
  return plan;
}

}  // namespace gbcompress
