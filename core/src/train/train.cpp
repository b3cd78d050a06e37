#include "gbcompress/train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "model/forward_pass.h"
#include "train/augment.h"
#include "train/compare_ranks.h"

namespace gbcompress {

double fit_weights(GenomicBottleneck& bottleneck, std::int64_t steps, Schedule schedule,
                   const ProgressSink& progress, const LoopControl& control) {
  const at::NoGradGuard no_grad;
  struct Fit {
    at::Tensor weights, original;
    double variance;
  };
  std::vector<Fit> fits;
  std::int64_t total = 0;
  for (const auto& layer : bottleneck.layers()) {
    const at::Tensor original = layer.original.to(at::kFloat);
    const double variance =
        original.numel() > 1 ? original.var().item<double>() : original.square().item<double>();
    fits.push_back({layer.weights, original, std::max(variance, 1e-20)});
    total += original.numel();
  }
  if (total == 0) return 0;
  const auto error = [&](bool with_gradient) {
    double sum = 0;
    for (Fit& fit : fits) {
      const at::Tensor difference = fit.weights.to(at::kFloat) - fit.original;
      sum += difference.square().sum().item<double>() / fit.variance;
      if (with_gradient)
        fit.weights.mutable_grad() =
            difference.mul_(2 / (fit.variance * static_cast<double>(total)))
                .to(fit.weights.scalar_type());
    }
    return sum / static_cast<double>(total);
  };
  for (std::int64_t step = control.start; step < steps; ++step) {
    if (!control.after_step) throw_if_interrupted();
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const double loss = error(/*with_gradient=*/true);
    bottleneck.backward(Gradients::kAlike);
    bottleneck.step(schedule_factor(schedule, step, steps));
    if (progress) progress({"fit", step + 1, steps, loss});
    if (control.after_step) control.after_step(step + 1);
  }
  bottleneck.zero_grad();
  bottleneck.train(false);  // what is measured is what will be stored
  bottleneck.predict_weights();
  bottleneck.train(true);
  return error(/*with_gradient=*/false);
}

namespace {

/// Epochs between two reductions of Schedule::kStep.
constexpr std::int64_t kUsualReduction = 30;

/// Mean over all rows of cross-entropy; labels or, with a teacher, its distribution and a part of
/// the labels. Where targets are outputs, the squared error over their squares.
at::Tensor loss_of(const at::Tensor& output, const StrategyBatch& batch, double labels) {
  const at::Tensor logits = output.flatten(0, -2);
  if (batch.targets.is_floating_point()) {
    const at::Tensor wanted = batch.targets.flatten(0, -2);
    return (logits - wanted).square().sum() / wanted.square().sum().clamp_min(1e-30);
  }
  if (!batch.teacher.defined()) return at::cross_entropy_loss(logits, batch.targets.flatten());
  const at::Tensor distilled =
      at::cross_entropy_loss(logits, batch.teacher.flatten(0, -2).softmax(-1));
  if (labels == 0) return distilled;
  return distilled * (1 - labels) +
         at::cross_entropy_loss(logits, batch.targets.flatten()) * labels;
}

}  // namespace

namespace {

bool has_need(const Strategy& strategy, const std::string& need) {
  const std::vector<std::string> needs = strategy.needs();
  return std::find(needs.begin(), needs.end(), need) != needs.end();
}

/// One training run on this rank.
class Trainer {
 public:
  Trainer(GenomicBottleneck& bottleneck, const Dataset& data, const TrainOptions& options,
          Model* teacher, Strategy& strategy)
      : bottleneck_(bottleneck),
        data_(data),
        options_(options),
        teacher_(teacher),
        strategy_(strategy) {
    whole_ = has_need(strategy, "whole-batch");
    if (whole_ && options.shards > 0)
      throw Error(Errc::kUsage, "strategy " + options.strategy.name +
                                    " needs whole batches; leave train.shards (`deterministic` "
                                    "sets it) as it is");
    BottleneckRanks::leave_layers(bottleneck);  // an earlier strategy's
    if (const Group* group = BottleneckRanks::group(bottleneck)) {
      rank_ = group->rank();
      world_ = group->world();
    }
  }

  /// @return the mean loss over this rank's rows
  double step(std::int64_t step) {
    step_ = step;
    const std::int64_t per_epoch = (data_.size() + options_.batch - 1) / options_.batch;
    if (step / per_epoch != epoch_) {
      epoch_ = step / per_epoch;
      order_ = RandomStream(options_.seed, "shuffle", "", static_cast<std::uint64_t>(epoch_))
                   .permutation(data_.size());
    }
    const std::int64_t first = step % per_epoch * options_.batch;
    const std::int64_t count = std::min(options_.batch, data_.size() - first);
    bottleneck_.zero_grad();
    BottleneckRanks::predict_own_layers(bottleneck_);
    if (whole_) {
      const double loss = run(first, first + count, 1);
      bottleneck_.backward(Gradients::kSame);
      return loss;
    }
    return options_.shards > 0 ? in_shards(first, count) : own_rows(first, count);
  }
  /// After so many steps.
  void compare(std::int64_t done, std::int64_t total) const {
    if (whole_ && world_ > 1 && (done % kStepsBetweenComparisons == 0 || done == total))
      compare_ranks(bottleneck_, done);
  }
  /// Measurements::more of the last part that was computed.
  const std::map<std::string, double>& measured() const { return measured_; }

 private:
  /// This rank's rows. Gradients are averaged over ranks, so that a row counts `world` times here.
  double own_rows(std::int64_t first, std::int64_t count) {
    const std::int64_t begin = first + count * rank_ / world_;
    const std::int64_t end = first + count * (rank_ + 1) / world_;
    const double rows = static_cast<double>(end - begin);
    const double loss =
        end > begin ? run(begin, end, rows * world_ / static_cast<double>(count)) : 0;
    bottleneck_.backward();
    return loss;
  }

  double in_shards(std::int64_t first, std::int64_t count) {
    const auto shards = static_cast<int>(options_.shards);
    const ShardRange own = shards_of(rank_, world_, shards);
    FixedSum sum(BottleneckShards::numbers(bottleneck_), own);
    // Every shard starts from the same batch-norm statistics; the sum averages what they became.
    std::vector<at::Tensor> buffers, before, counted;
    for (const NamedParameter& p : bottleneck_.tensors())
      if (!p.trainable && p.tied_to.empty()) {
        buffers.push_back(p.tensor);
        before.push_back(p.tensor.detach().clone());
      }
    double loss = 0, rows = 0;
    for (int s = own.first; s < own.first + own.count; ++s) {
      const std::int64_t low = first + count * s / shards, high = first + count * (s + 1) / shards;
      if (s > own.first) {
        bottleneck_.zero_grad();
        copy_all(before, buffers);
      }
      if (high > low) {
        const double n = static_cast<double>(high - low);
        loss += n * run(low, high, n / static_cast<double>(count));
        rows += n;
      }
      if (s == own.first)  // counters of batches count steps, not shards
        for (const at::Tensor& buffer : buffers) counted.push_back(buffer.detach().clone());
      BottleneckShards::add(bottleneck_, sum);
    }
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (!buffers[i].is_floating_point()) buffers[i].copy_(counted[i]);
    BottleneckShards::reduce(bottleneck_, sum, shards);
    return rows > 0 ? loss / rows : 0;
  }

  static void copy_all(const std::vector<at::Tensor>& from, std::vector<at::Tensor>& to) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }

  /// The strategy's gradients of rows [low, high) of this epoch's order. @return the mean loss
  double run(std::int64_t low, std::int64_t high, double weight) {
    const std::vector<std::int64_t> rows(order_.begin() + low, order_.begin() + high);
    Batch gathered = data_.gather(rows);
    StrategyBatch batch{gathered.inputs, gathered.targets, {}, weight, step_, rows};
    if (options_.shift > 0 || options_.flip)
      batch.inputs =
          augmented(batch.inputs, rows, options_.shift, options_.flip,
                    RandomStream(options_.seed, "augment", "", static_cast<std::uint64_t>(epoch_)));
    if (options_.loss == Loss::kDistill) {
      const at::NoGradGuard no_grad;
      batch.teacher = teacher_->forward(batch.inputs);
    }
    const NoiseScope scope(options_.seed, step_, rows);
    Measurements measured = strategy_.step(batch);
    if (!std::isfinite(measured.loss))
      throw Error(Errc::kNonFinite, "the loss is not finite at step " + std::to_string(step_ + 1) +
                                        "; lower the learning rate (optim.lr)");
    measured_ = std::move(measured.more);
    return measured.loss;
  }

  GenomicBottleneck& bottleneck_;
  const Dataset& data_;
  const TrainOptions& options_;
  Model* teacher_;
  Strategy& strategy_;
  std::map<std::string, double> measured_;
  bool whole_ = false;
  int rank_ = 0, world_ = 1;
  std::int64_t epoch_ = -1, step_ = 0;
  std::vector<std::int64_t> order_;
};

}  // namespace

std::int64_t training_steps(const TrainOptions& options, const Dataset& data) {
  return (data.size() + options.batch - 1) / options.batch * options.epochs;
}

RateOptions rate_of(const TrainOptions& options, const Dataset& data) {
  RateOptions rate = options.rate;
  // The loss is a mean over predictions: one a sample, or one a character.
  rate.predictions = data.size() * data.predictions();
  rate.steps = training_steps(options, data);
  return rate;
}

StrategySetup strategy_setup(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
                             const TrainOptions& options, Group* group) {
  StrategySetup setup{model, bottleneck, group};
  setup.loss = [labels = options.labels](const at::Tensor& output, const StrategyBatch& batch) {
    return loss_of(output, batch, labels);
  };
  setup.example = data.range(0, 1).inputs;
  setup.seed = options.seed;
  setup.batch = std::min(options.batch, data.size());
  setup.steps = training_steps(options, data);
  return setup;
}

namespace {

void check(const Model& model, const Dataset& data, const TrainOptions& options,
           const Model* teacher) {
  if (options.batch < 1 || options.epochs < 0)
    throw Error(Errc::kUsage, "train.batch must be at least 1, train.epochs at least 0");
  if (!(options.labels >= 0 && options.labels < 1))
    throw Error(Errc::kUsage, "train.labels must be at least 0 and below 1");
  if (options.shift < 0 || options.shift > 1024)
    throw Error(Errc::kUsage, "train.shift must be 0 to 1024 pixels");
  if (options.shards < 0 || options.shards > kMaxShards)
    throw Error(Errc::kUsage, "train.shards must be 0, or a power of two up to 4096");
  require_forward(model, "so it cannot be trained with data", ", or use `loss` weights");
  if (options.loss == Loss::kDistill && !teacher)
    throw Error(Errc::kUsage, "`loss` distill needs the original model as teacher");
  if (!data.has_classes() && options.strategy.name != StrategyChoice().name)
    throw Error(Errc::kUsage, "`strategy` " + printable(options.strategy.name) +
                                  " needs labels to train on, and these data have outputs alone; "
                                  "give targets, or use `strategy` backprop");
}

EpochSchedule epoch_schedule(const TrainOptions& options, std::int64_t total) {
  const bool reduces = options.schedule == Schedule::kStep;
  const std::int64_t all = std::max<std::int64_t>(options.epochs, 1);
  EpochSchedule epochs{.steps = std::max<std::int64_t>(total / all, 1),
                       .epochs = reduces ? kUsualReduction : all,
                       .factor = reduces ? 0.1 : 0.0};
  if (options.schedule_epochs > 0) epochs.epochs = options.schedule_epochs;
  if (options.schedule_factor) epochs.factor = *options.schedule_factor;
  return epochs;
}

void set_training(Model& model, const TrainOptions& options) {
  model.train(true);
  if (options.freeze_norms) model.freeze_norms();
}

/// The model as its file would have it.
void set_stored(Model& model, GenomicBottleneck& bottleneck) {
  model.train(false);
  bottleneck.zero_grad();
  bottleneck.train(false);
  bottleneck.predict_weights();
  bottleneck.train(true);
}

}  // namespace

void train(Model& model, GenomicBottleneck& bottleneck, const Dataset& data,
           const TrainOptions& options, Model* teacher, const ProgressSink& progress,
           const LoopControl& control, Strategy* strategy) {
  check(model, data, options, teacher);
  std::unique_ptr<Strategy> backprop;
  if (!strategy) {
    backprop = make_strategy(
        {}, strategy_setup(model, bottleneck, data, options, BottleneckRanks::group(bottleneck)),
        Registry());
    strategy = backprop.get();
  }
  const at::AutoGradMode with_grad(true);
  const std::int64_t total = training_steps(options, data);
  if (total > 0 && !model.exits().empty() && !has_need(*strategy, "exits"))
    throw Error(Errc::kUsage,
                "strategy " + options.strategy.name + " trains no early exits, and " +
                    printable(model.arch()) +
                    " has some; choose the strategy al, or the architecture without them");
  set_training(model, options);
  if (teacher) teacher->train(false);
  const EpochSchedule epochs = epoch_schedule(options, total);
  const std::int64_t between =
      control.measure ? options.measure_epochs * (total / std::max<std::int64_t>(options.epochs, 1))
                      : 0;
  Trainer trainer(bottleneck, data, options, teacher, *strategy);
  for (std::int64_t step = control.start; step < total; ++step) {
    if (!control.after_step) throw_if_interrupted();
    const double loss = trainer.step(step);
    std::map<std::string, double> measured = BottleneckRate::rate(bottleneck);
    measured.insert(trainer.measured().begin(), trainer.measured().end());
    bottleneck.step(schedule_factor(options.schedule, step, total, epochs));
    trainer.compare(step + 1, total);
    if (between > 0 && (step + 1) % between == 0) {
      set_stored(model, bottleneck);
      measured.merge(control.measure());
      set_training(model, options);
    }
    if (progress) progress({"train", step + 1, total, loss, std::move(measured)});
    if (control.after_step) control.after_step(step + 1);
  }
  set_stored(model, bottleneck);
}

}  // namespace gbcompress
