#include "compress/search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "bottleneck/internals.h"
#include "compress/attempt.h"
#include "compress/drop_search.h"
#include "compress/planned_size.h"
#include "compress/price_search.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// Price of the reference beside the one where a search begins: low enough to cost no quality, high
/// enough to bring the integers on their way.
constexpr double kReferencePrice = 0.1;
/// A file that is larger than wanted by more than this is not cut down if another one will do.
constexpr double kCut = 1.15;

std::string text(const char* format, auto... values) {
  char buffer[200];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// The plan of g-nets whose file has that size; residual parameters need none.
BottleneckOptions sized_to(const Job& job, std::int64_t bytes) {
  const CompressOptions& o = job.options;
  if (job.residual()) return o.bottleneck;
  return options_for_size(job.model.tensors(), job.registry, o.bottleneck, bytes).options;
}

Outcome one_attempt(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  outcome.bottleneck.emplace(
      attempts.run(job.wanted_bytes > 0 ? sized_to(job, job.wanted_bytes) : job.options.bottleneck,
                   job.wanted_bytes));
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.bytes_per_step = attempts.bytes_per_step;
  if (job.trained && job.priced()) outcome.price = job.options.train.rate.lambda;
  return outcome;
}

/// Values that a new attempt starts from.
std::vector<at::Tensor> snapshot(const Model& model) {
  std::vector<at::Tensor> values;
  for (const NamedParameter& p : model.tensors()) values.push_back(p.tensor.detach().clone());
  return values;
}
void restore(Model& model, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) model.tensors()[i].tensor.copy_(values[i]);
}

/// Sizes one after another, each from the model as it is: where another size is another plan of
/// g-nets, or an attempt trains nothing and is cheap.
Outcome search_sizes(Job& job) {
  Attempts attempts(job);
  Outcome outcome;
  const std::vector<at::Tensor> originals = snapshot(job.model);
  const auto run_at = [&](double ratio) {
    restore(job.model, originals);
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(job.input_bytes) / ratio);
    outcome.bottleneck.emplace(attempts.run(sized_to(job, bytes), bytes));
  };
  const bool cheap = job.residual() && !job.trained;
  const auto& resumed = job.checkpoints.resumed();
  const std::int64_t first = cheap || !resumed ? 0 : resumed->attempt;
  DropSearch search(cheap);
  double drop = 0, ratio = 0;
  for (bool more = true; more; ++attempts.at.attempt) {
    ratio = search.ratio();
    const bool known = attempts.at.attempt < first;  // it missed, or it would be the last
    if (!known) {
      run_at(ratio);
      drop = of_rank_0(job.options.group, job.judge->drop(job.model));
    }
    more = search.tried(!known && drop <= *job.options.target.max_drop);
  }
  outcome.attempts = attempts.at.attempt;
  outcome.target_met = search.best() > 0;
  if (outcome.target_met && search.best() != ratio) run_at(search.best());
  if (!outcome.target_met)
    outcome.note = text(
        "a drop of at most %g was asked; at the largest size tried it is %.3g on held-back "
        "training data; try more epochs",
        *job.options.target.max_drop, drop);
  outcome.file = BottleneckInternals::encode(*outcome.bottleneck);
  outcome.bytes_per_step = attempts.bytes_per_step;
  return outcome;
}

/// Attempts at one price after another. Each goes on from where the one with the nearest lower
/// price ended, whose file is larger: what has become zero at too high a price does not come back.
class PriceAttempts {
 public:
  explicit PriceAttempts(Job& job) : job_(job), attempts_(job) {}

  Outcome run() {
    bottleneck_.emplace(attempts_.begin(
        job_.wanted_bytes > 0 ? sized_to(job_, job_.wanted_bytes) : job_.options.bottleneck,
        &base_));
    take_up();
    if (job_.judge && points_.empty()) reference();
    PriceSearch search(goal(), first_price(), job_.attempts - (job_.judge ? 1 : 0), known());
    bool more = true;
    for (std::size_t i = known().size(); more && i < points_.size(); ++i)
      more = search.tried(points_[i]);
    while (more) {
      const auto begin = Clock::now();
      const PricePoint point = attempt(search.price(), /*reference=*/false);
      more = search.tried(point) && time_for(Clock::now() - begin);
      keep(search, more);
    }
    return outcome(search);
  }

 private:
  double first_price() const { return job_.options.train.rate.lambda; }

  PriceGoal goal() const {
    if (job_.wanted_bytes > 0) return {.bytes = job_.wanted_bytes, .drop = {}};
    // What was asked, as far as these data can tell.
    const double asked = job_.options.target.max_drop.value_or(0);
    return {.bytes = {}, .drop = std::hypot(asked, job_.judge->noise())};
  }

  /// Whether the minutes that were given leave time for another attempt like the last one.
  bool time_for(Clock::duration last) const {
    if (!job_.options.minutes) return true;
    const std::chrono::duration<double> end = Clock::now() - job_.start + last;
    return of_rank_0(job_.options.group, end.count() <= 60 * *job_.options.minutes) > 0;
  }

  /// The reference is known to the search and no attempt of it.
  std::vector<PricePoint> known() const {
    return job_.judge ? std::vector<PricePoint>{points_.front()} : std::vector<PricePoint>();
  }

  void reference() {
    attempt(kReferencePrice * first_price(), /*reference=*/true);
    best_ = BottleneckInternals::encode(*bottleneck_);
    best_price_ = points_.back().price;
    go_on_from_here();
    next();
  }

  void go_on_from_here() {
    base_ = std::make_shared<const Attempts::State>(bottleneck_->training_state());
    base_price_ = points_.back().price;
  }

  /// What a resumed run knows: prices, bytes and drops of earlier attempts, the judge's baseline.
  void take_up() {
    if (attempts_.at.history.empty()) return;
    std::istringstream in(attempts_.at.history);
    Judge::State state;
    in >> state.baseline >> state.noise >> best_price_ >> base_price_;
    for (PricePoint p; in >> p.price >> p.bytes >> p.drop;) points_.push_back(p);
    if (points_.empty())
      throw Error(Errc::kCorrupt,
                  "the checkpoint does not say what earlier attempts gave; use "
                  "another one, or start anew");
    if (job_.judge) job_.judge->set_state(state);
    if (attempts_.at.best_file) best_ = *attempts_.at.best_file;
    if (attempts_.at.kept_state) base_ = attempts_.at.kept_state;
    resumed_ = true;
  }

  /// The position behind a finished attempt.
  void next() {
    const Judge::State state = job_.judge ? job_.judge->state() : Judge::State();
    std::string& history = attempts_.at.history;
    history =
        text("%.17g %.17g %.17g %.17g", state.baseline, state.noise, best_price_, base_price_);
    for (const PricePoint& p : points_)
      history += text(" %.17g %lld %.17g", p.price, static_cast<long long>(p.bytes), p.drop);
    attempts_.at.best_file =
        best_.empty() ? nullptr : std::make_shared<const std::vector<std::byte>>(best_);
    attempts_.at.kept_state = base_price_ > 0 ? base_ : nullptr;
    ++attempts_.at.attempt;
    attempts_.at.phase = "train";
    attempts_.at.done = 0;
  }

  /// A run at another price; one that is taken up keeps its moments.
  void begin_at(const RateOptions& rate) {
    const std::vector<StateEntry> state =
        resumed_ ? bottleneck_->training_state() : std::vector<StateEntry>();
    bottleneck_->restart(rate);
    if (resumed_) bottleneck_->restore_training_state(state);
    resumed_ = false;
  }

  PricePoint attempt(double price, bool reference) {
    TrainOptions options = job_.options.train;
    options.rate.lambda = price;
    options.rate.first_lambda = base_price_;
    if (base_price_ > 0) options.epochs = later_epochs(options.epochs);
    begin_at(attempts_.rate(options));
    attempts_.train(*bottleneck_, options);
    attempts_.settle(*bottleneck_, 0);
    PricePoint point{price, bottleneck_->bytes(), 0};
    if (reference) job_.judge->take_reference(job_.model);
    if (job_.judge) point.drop = job_.judge->drop(job_.model);
    point.bytes =
        static_cast<std::int64_t>(of_rank_0(job_.options.group, static_cast<double>(point.bytes)));
    point.drop = of_rank_0(job_.options.group, point.drop);
    points_.push_back(point);
    tell(point, reference);
    return point;
  }

  void tell(const PricePoint& point, bool reference) const {
    if (!job_.options.tell) return;
    std::string line = text("attempt %zu: lambda %.3g, %lld bytes", points_.size(), point.price,
                            static_cast<long long>(point.bytes));
    if (reference)
      line += ", the reference for what is lost";
    else if (job_.judge)
      line += text(", %.3g lost on held-back training data", point.drop);
    job_.options.tell(line);
  }

  /// The file of the last attempt, if it is the best one so far.
  void keep(const PriceSearch& search, bool more) {
    const PricePoint& last = points_.back();
    const std::int64_t wanted = job_.wanted_bytes;
    if (wanted > 0 && !more) {
      land_last();
    } else if (wanted > 0
                   ? last.bytes <= wanted && last.bytes > static_cast<std::int64_t>(best_.size())
                   : search.best() == search.points().size() - 1) {
      best_ = BottleneckInternals::encode(*bottleneck_);
      best_price_ = last.price;
    }
    const bool too_low = wanted > 0 ? !search.keeps(last) : search.keeps(last);
    if (too_low && last.price > base_price_)
      go_on_from_here();
    else if (more)
      bottleneck_->restore_training_state(*base_);
    next();
  }

  /// Brings the last attempt to the size that is wanted, but where an earlier one is nearer to it.
  void land_last() {
    const auto wanted = static_cast<double>(job_.wanted_bytes);
    const auto last = static_cast<double>(points_.back().bytes);
    const bool far = last > kCut * wanted;
    if (far && static_cast<double>(best_.size()) * kCut > wanted) return;
    RateOptions rate = attempts_.rate(job_.options.train);
    rate.max_bytes = job_.wanted_bytes;
    bottleneck_->restart(rate);
    bottleneck_->finish();
    best_ = BottleneckInternals::encode(*bottleneck_);
    best_price_ = points_.back().price;
  }

  Outcome outcome(const PriceSearch& search) {
    Outcome outcome;
    outcome.attempts = static_cast<std::int64_t>(points_.size());
    if (job_.wanted_bytes == 0 && !search.best()) {
      outcome.target_met = false;
      outcome.note = text(
          "a drop of at most %.3g was asked; at the lowest price tried it is %.3g on held-back "
          "training data; try more epochs",
          *goal().drop, lowest().drop);
    }
    outcome.file = std::move(best_);
    outcome.price = best_price_;
    outcome.bottleneck.emplace(std::move(*bottleneck_));
    outcome.bytes_per_step = attempts_.bytes_per_step;
    return outcome;
  }

  const PricePoint& lowest() const {
    return *std::min_element(
        points_.begin(), points_.end(),
        [](const PricePoint& a, const PricePoint& b) { return a.price < b.price; });
  }

  Job& job_;
  Attempts attempts_;
  std::optional<GenomicBottleneck> bottleneck_;
  std::vector<PricePoint> points_;  ///< of all attempts, the reference first
  std::vector<std::byte> best_;
  double best_price_ = 0;
  std::shared_ptr<const Attempts::State> base_;  ///< what the next attempt begins with
  double base_price_ = 0;                        ///< 0: that is the beginning
  bool resumed_ = false;                         ///< the next attempt was begun before
};

}  // namespace

Outcome attempt_all(Job& job) {
  if (job.searches_price()) return PriceAttempts(job).run();
  if (job.options.target.max_drop) return search_sizes(job);
  return one_attempt(job);
}

}  // namespace gbcompress
