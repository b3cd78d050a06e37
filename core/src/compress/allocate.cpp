#include "compress/allocate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "search/size_search.h"
#include "statistics/calibrate.h"

namespace gbcompress {
namespace {

/// log2 of steps, beside that of the dearest tensor.
constexpr double kLowest = -24, kHighest = 12, kStart = -6;
/// Prices of a bit that are tried, beside 0, in squared steps: what is best lay around them on a
/// transformer, a ResNet and a small net.
constexpr double kPrice = 0.07, kHighPrice = 0.14;
/// Multiply-adds of error feedback up to which all rules are tried. Rounding by rate takes one row
/// after another, for each of which the factors are read anew, and refits solve as large systems.
constexpr double kAllRules = 3e10;
/// Where each size takes a walk through the model.
constexpr SizeRule kWalks{.tries = 4, .enough = 0.985};
/// Corrected norms take some bytes more or less.
constexpr int kNormTries = 4;
constexpr std::int64_t kJudgeBatch = 64, kJudged = 1024;
/// A rule holds for sizes up to so many times as large or small.
constexpr double kSameRule = 1.5;
/// Of models with larger outputs fewer samples judge.
constexpr std::int64_t kJudgedNumbers = 1 << 24;

Dataset few(const Dataset& judge, std::uint64_t seed) {
  return calibration_samples(judge, kJudged, seed);
}

}  // namespace

Allocation::Allocation(Model& model, const Dataset& samples, std::int64_t count,
                       const Dataset& judge, const TrainOptions& options, Tell tell)
    : model_(model),
      samples_(calibration_samples(samples, count, options.seed)),
      judge_(few(judge, options.seed)),
      norms_(model, samples_),
      options_(options),
      tell_(std::move(tell)) {}

void Allocation::weigh(const ModelSnapshot& values, Group* group) {
  statistics_ = second_order_statistics(model_, samples_, options_.seed, group);
  if (statistics_.left_out > 0 && tell_)
    tell_(std::to_string(statistics_.left_out) +
          (statistics_.left_out == 1 ? " matrix exceeds" : " matrices exceed") +
          " the memory limit of second-order statistics; rounded without error feedback");
  values_ = values;
  original_ = judged();
  check_finite_outputs(original_.square());  // losses are of squares
}

std::vector<std::size_t> Allocation::correct_norms() const {
  norms_.apply(model_);
  fold_batch_norms(model_);
  return norms_.vectors();
}

void Allocation::tell(const std::string& rule, std::int64_t bytes, double lost) const {
  if (!tell_) return;
  char line[200];
  std::snprintf(line, sizeof line, "%s: %lld bytes, %s %.3g%s on the held-out split", rule.c_str(),
                static_cast<long long>(bytes),
                judge_.has_classes() ? "KL divergence" : "squared output error",
                judge_.has_classes() ? lost : 2 * lost, judge_.has_classes() ? " nats" : "");
  tell_(line);
}

/// What is compared: log probabilities of classes, or outputs. [positions, classes]
at::Tensor Allocation::judged() const {
  const at::NoGradGuard no_grad;
  model_.train(false);
  std::vector<at::Tensor> outputs;
  std::int64_t numbers = 0;
  for (std::int64_t first = 0; first < judge_.size() && numbers < kJudgedNumbers;
       first += kJudgeBatch) {
    throw_if_interrupted();
    const Batch batch = judge_.range(first, std::min(kJudgeBatch, judge_.size() - first));
    const at::Tensor each = model_.forward(batch.inputs).flatten(0, -2).to(at::kFloat);
    outputs.push_back(judge_.has_classes() ? each.log_softmax(1) : each);
    numbers += outputs.back().numel();
  }
  return at::cat(outputs);
}

/// Mean over positions.
double Allocation::lost(const at::Tensor& now) const {
  const at::Tensor each =
      judge_.has_classes() ? (original_.exp() * (original_ - now)) : (original_ - now).square() / 2;
  return each.sum(1).mean().item<double>();
}

void Allocation::begin(const GenomicBottleneck& bottleneck) {
  values_->restore(model_);
  if (integers_) return;
  const BottleneckIntegers::Residual residual = BottleneckIntegers::residual(bottleneck);
  integers_.emplace(model_, residual.tensors, residual.grids, std::move(statistics_), samples_,
                    options_.rate.temper, values_->values());
}

std::int64_t Allocation::place(GenomicBottleneck& bottleneck, double x, const Rule& rule) {
  integers_->choose(x, rule);
  BottleneckIntegers::set(bottleneck, integers_->coded());
  return bottleneck.bytes();
}

/// The finest steps found that fit, near at.x.
bool Allocation::search(GenomicBottleneck& bottleneck, std::int64_t wanted, Try& at) {
  SizeSearch sizes(wanted, integers_->numbers(), kLowest, kHighest,
                   at.rule.refit ? kWalks : SizeRule());
  while (const auto x = sizes.next(at.x)) {
    at.bytes = place(bottleneck, *x, at.rule);
    sizes.tried(*x, at.bytes);
  }
  at.x = sizes.best().value_or(sizes.last().value_or(kHighest));
  if (at.x != sizes.last()) at.bytes = place(bottleneck, at.x, at.rule);
  return sizes.best().has_value();
}

/// Integers by one rule, batch norms corrected, and what they lose.
Allocation::Try Allocation::tried(GenomicBottleneck& bottleneck, std::int64_t wanted,
                                  const Rule& rule, double start) {
  Try at{rule, start};
  std::int64_t room = wanted;
  for (int i = 0; i < kNormTries; ++i) {
    begin(bottleneck);
    const bool fits = search(bottleneck, room, at);
    if (norms_.size() > 0) {
      integers_->choose_again(at.x, rule, correct_norms());
      BottleneckIntegers::set(bottleneck, integers_->coded());
      at.bytes = bottleneck.bytes();
    }
    if (at.bytes <= wanted || !fits) break;
    room -= at.bytes - wanted;
  }
  const double lost = this->lost(judged());
  // A bit a number less is four times the loss: sizes are not quite the same.
  at.lost = lost * std::exp2(16 * static_cast<double>(at.bytes - wanted) /
                             static_cast<double>(integers_->numbers()));
  if (!std::isfinite(at.lost) || at.bytes > wanted) at.lost = HUGE_VAL;
  at.integers = integers_->coded();
  tell(rule.text(), at.bytes, lost);
  return at;
}

void Allocation::choose_rule(GenomicBottleneck& bottleneck, std::int64_t wanted, bool refit) {
  best_.reset();
  const auto consider = [&](const Rule& rule) {
    Try now = tried(bottleneck, wanted, rule, best_ ? best_->x : kStart);
    if (!best_ || now.lost < best_->lost) best_ = std::move(now);
  };
  begin(bottleneck);
  if (integers_->feedback_work() > kAllRules) {
    if (tell_)
      tell_(
          "matrices this large are rounded with error feedback alone: rounding by rate and refits "
          "would take too long");
    consider({.columns = false, .rows = false});
    consider({.columns = true, .rows = false});
    consider({.columns = true, .rows = true});
    best_for_ = wanted;
    return;
  }
  consider({.columns = true, .rows = true, .price = kPrice});
  consider({.columns = true, .rows = false, .price = kPrice});
  const Rule sides = best_->rule;
  for (const double price : {0.0, kHighPrice}) {
    Rule other = sides;
    other.price = price;
    consider(other);
  }
  if (refit && integers_->can_refit()) {
    Rule fitted = best_->rule;
    fitted.refit = true;
    consider(fitted);
  }
  best_for_ = wanted;
}

void Allocation::land(GenomicBottleneck& bottleneck, std::int64_t wanted, bool refit) {
  const double away =
      best_ ? std::fabs(std::log(static_cast<double>(wanted) / static_cast<double>(best_for_)))
            : HUGE_VAL;
  if (away > std::log(kSameRule))
    choose_rule(bottleneck, wanted, refit);
  else
    best_ = tried(bottleneck, wanted, best_->rule, best_->x);
  BottleneckIntegers::set(bottleneck, best_->integers);
}

}  // namespace gbcompress
