#include "compress/price_attempts.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

#include "bottleneck/internals.h"
#include "bottleneck/planner.h"
#include "compress/above_chance.h"
#include "compress/attempt.h"
#include "compress/price_search.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// Price of the reference beside the one where a search begins: low enough to cost no quality, high
/// enough to bring the integers on their way.
constexpr double kReferencePrice = 0.1;
/// The same of training that only shows what can be learnt without the held-back data.
constexpr double kRelearningPrice = 0.001;
/// A file that is smaller than wanted by less than this is not given up for one that is cut down.
constexpr double kCut = 1.15;

/// A file that an attempt made.
struct Candidate {
  std::vector<std::byte> file = {};
  double price = 0;
  double kept = 0;  ///< AboveChance::kept()
  double loss = 0;  ///< AboveChance::loss()

  bool alive() const { return kept >= AboveChance::kLeastKept; }
};

/// Whether `a` serves a wanted size better than `b`: of files that fit the one that answers best,
/// else the smallest with a model alive, else what keeps most.
bool serves_better(const Candidate& a, const Candidate& b, std::int64_t wanted) {
  const auto size = static_cast<std::size_t>(wanted);
  const auto fits = [&](const Candidate& c) { return c.alive() && c.file.size() <= size; };
  if (b.file.empty() || a.file.empty()) return b.file.empty();
  if (fits(a) != fits(b)) return fits(a);
  if (fits(a)) return a.loss < b.loss;
  if (a.alive() != b.alive()) return a.alive();
  return a.alive() ? a.file.size() < b.file.size() : a.kept > b.kept;
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
    beginning_ = base_;
    take_up();
    if (job_.judge && points_.empty()) reference();
    bool more = true;
    PriceSearch search = search_so_far(more);
    while (more) {
      const auto begin = Clock::now();
      const PricePoint point = attempt(search.price(), from_of(search), /*reference=*/false);
      more = search.tried(point);
      const bool time = time_for(Clock::now() - begin);
      std::optional<Candidate> last;
      if (time && may_be_memory(search, point)) {
        last = candidate();
        take_memory_off();
        search = search_so_far(more);
      }
      more = more && time;
      keep(search, more, std::move(last));
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

  /// With all attempts so far. @param more  becomes whether there is another price to try
  PriceSearch search_so_far(bool& more) const {
    PriceSearch search(goal(), first_price(), job_.attempts - (job_.judge ? 1 : 0), known());
    more = true;
    for (std::size_t i = known().size(); more && i < points_.size(); ++i)
      more = search.tried(points_[i]);
    return search;
  }

  /// Whether an attempt loses more than is allowed only because the original has learnt the samples
  /// that are held back. Looked at where all is integers and one training is like another.
  bool may_be_memory(const PriceSearch& search, const PricePoint& point) {
    const CompressOptions& options = job_.options;
    if (!options.target.max_drop || search.keeps(point) || !job_.residual() ||
        any_prior(options.bottleneck) || options.train.strategy.name != StrategyChoice().name ||
        std::any_of(options.bottleneck.layers.begin(), options.bottleneck.layers.end(),
                    [](const LayerRule& rule) { return rule.mode == WeightMode::kGenerated; }))
      return false;
    return of_rank_0(options.group,
                     job_.judge->may_remember(job_.model, *options.target.max_drop)) > 0;
  }

  /// Trains from the numbers of the last attempt, which are too coarse to remember single samples,
  /// as the original seems to have been trained, at next to no price; the judge compares with that
  /// from here on. No step of it is saved: a run that is taken up meanwhile trains it anew.
  void take_memory_off() {
    const RunPosition position = attempts_.at;
    const std::vector<StateEntry> state = bottleneck_->training_state();
    TrainOptions options = job_.options.train;
    options.rate.lambda = kRelearningPrice * first_price();
    options.epochs = later_epochs(options.epochs);
    options.shift = std::min(options.shift, job_.own_augmentation.shift);
    options.mirror = options.mirror && job_.own_augmentation.mirror;
    try {
      // Made of the model as it is: zeros of the attempt are numbers like others again.
      BottleneckOptions whole = job_.options.bottleneck;
      whole.rate = attempts_.rate(options);
      bottleneck_->restore_training_state(
          GenomicBottleneck(job_.model.tensors(), job_.registry, whole, job_.options.group)
              .training_state());
      bottleneck_->restart(whole.rate);
      train(job_.model, *bottleneck_, *job_.train, options, job_.teacher, job_.progress,
            {.after_step = [&](std::int64_t) { job_.checkpoints.after_step_aside(); }});
    } catch (const Error& error) {
      if (error.code() != Errc::kInterrupted) throw;
      bottleneck_->restore_training_state(state);
      job_.checkpoints.after_step(position, *bottleneck_);  // saves, and throws
    }
    bottleneck_->finish();
    const double before = job_.judge->state().baseline;
    job_.judge->take_relearned(job_.model);
    const double memory = of_rank_0(job_.options.group, before - job_.judge->state().baseline);
    for (PricePoint& p : points_) p.drop -= memory;
    bottleneck_->restore_training_state(state);
    if (job_.options.tell)
      job_.options.tell(formatted(
          "the model knows the held-back samples from its own training; %.3g of what is lost on "
          "them is memory that training without them does not reach either, and not counted",
          memory));
  }

  /// The reference is known to the search and no attempt of it.
  std::vector<PricePoint> known() const {
    return job_.judge ? std::vector<PricePoint>{points_.front()} : std::vector<PricePoint>();
  }

  void reference() {
    attempt(kReferencePrice * first_price(), 0, /*reference=*/true);
    best_ = candidate();
    go_on_from_here();
    next();
  }

  /// Of the model as it is.
  double kept() { return of_rank_0(job_.options.group, job_.above_chance->kept(job_.model)); }

  /// The file of the last attempt as the bottleneck is now.
  Candidate candidate() {
    const double loss = of_rank_0(job_.options.group, job_.above_chance->loss(job_.model));
    return {BottleneckInternals::encode(*bottleneck_), points_.back().price, kept(), loss};
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
    double most = 0;
    in >> state.baseline >> state.noise >> state.reference_seen >> state.relearned >> most >>
        best_.price >> best_.kept >> best_.loss >> base_price_;
    for (PricePoint p; in >> p.price >> p.bytes >> p.drop >> p.alive >> p.from;)
      points_.push_back(p);
    if (points_.empty())
      throw Error(Errc::kCorrupt,
                  "the checkpoint does not say what earlier attempts gave; use "
                  "another one, or start anew");
    if (job_.judge) job_.judge->set_state(state);
    job_.above_chance->set_best(most);
    if (attempts_.at.best_file) best_.file = *attempts_.at.best_file;
    if (attempts_.at.kept_state) base_ = attempts_.at.kept_state;
    resumed_ = true;
  }

  /// The position behind a finished attempt.
  void next() {
    const Judge::State state = job_.judge ? job_.judge->state() : Judge::State();
    std::string& history = attempts_.at.history;
    history =
        formatted("%.17g %.17g %.17g %d %.17g %.17g %.17g %.17g %.17g", state.baseline, state.noise,
                  state.reference_seen, static_cast<int>(state.relearned),
                  job_.above_chance->best(), best_.price, best_.kept, best_.loss, base_price_);
    for (const PricePoint& p : points_)
      history += formatted(" %.17g %lld %.17g %d %.17g", p.price, static_cast<long long>(p.bytes),
                           p.drop, static_cast<int>(p.alive), p.from);
    attempts_.at.best_file =
        best_.file.empty() ? nullptr : std::make_shared<const std::vector<std::byte>>(best_.file);
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

  /// Where a size is wanted the search says where the next attempt begins; else from the base.
  double from_of(const PriceSearch& search) const {
    return job_.wanted_bytes > 0 ? search.from() : base_price_;
  }

  /// @param from  price of the attempt that it goes on from; 0: the beginning
  PricePoint attempt(double price, double from, bool reference) {
    TrainOptions options = job_.options.train;
    options.rate.lambda = price;
    options.rate.first_lambda = from;
    if (from > 0) options.epochs = later_epochs(options.epochs);
    begin_at(attempts_.rate(options));
    attempts_.train(*bottleneck_, options);
    attempts_.settle(*bottleneck_, 0);
    PricePoint point{.price = price, .bytes = bottleneck_->bytes(), .from = from};
    if (job_.wanted_bytes > 0) point.alive = kept() >= AboveChance::kLeastKept;
    if (reference) job_.judge->take_reference(job_.model);
    if (job_.judge) point.drop = job_.judge->drop(job_.model);
    point.bytes =
        static_cast<std::int64_t>(of_rank_0(job_.options.group, static_cast<double>(point.bytes)));
    point.drop = of_rank_0(job_.options.group, point.drop);
    points_.push_back(point);
    tell(point, reference);
    show(point, reference);
    return point;
  }

  void show(const PricePoint& point, bool reference) const {
    if (!job_.progress) return;
    Progress done{"attempt", static_cast<std::int64_t>(points_.size()), job_.attempts,
                  std::numeric_limits<double>::quiet_NaN()};
    done.measured = {{"price", point.price}, {"bytes", static_cast<double>(point.bytes)}};
    if (job_.judge && !reference) done.measured["held_back_drop"] = point.drop;
    job_.progress(done);
  }

  void tell(const PricePoint& point, bool reference) const {
    if (!job_.options.tell) return;
    std::string line = formatted("attempt %zu: lambda %.3g, %lld bytes", points_.size(),
                                 point.price, static_cast<long long>(point.bytes));
    if (reference)
      line += ", the reference for what is lost";
    else if (job_.judge)
      line += formatted(", %.3g lost on held-back training data", point.drop);
    if (!point.alive) line += ", less than half of what the original knows above chance";
    job_.options.tell(line);
  }

  /// The file of the last attempt, if it is the best one so far.
  /// @param made  that file, where it is there already
  void keep(const PriceSearch& search, bool more, std::optional<Candidate> made) {
    const PricePoint& last = search.points().back();
    const bool sized = job_.wanted_bytes > 0;
    if (sized) {
      consider(candidate());
      if (!more) land_last();
    } else if (search.best() == search.points().size() - 1) {
      best_ = made ? *std::move(made) : candidate();
    }
    const bool too_low = sized ? last.alive && !search.keeps(last) : search.keeps(last);
    const bool from_here = too_low && last.price > base_price_;
    if (from_here) go_on_from_here();
    if (more && sized && search.from() == 0)
      bottleneck_->restore_training_state(*beginning_);
    else if (more && !from_here)
      bottleneck_->restore_training_state(*base_);
    next();
  }

  void consider(Candidate candidate) {
    if (serves_better(candidate, best_, job_.wanted_bytes)) best_ = std::move(candidate);
  }

  /// Cuts the last attempt down to the size that is wanted where no file fits well; where the last
  /// one is dead, the one that it began with. Numbers that were trained for their steps answer much
  /// worse when they are chosen anew, so that this is the last resort.
  void land_last() {
    const auto wanted = static_cast<double>(job_.wanted_bytes);
    const bool fits = best_.alive() && static_cast<double>(best_.file.size()) <= wanted;
    if (fits && static_cast<double>(best_.file.size()) * kCut > wanted) return;
    if (!points_.back().alive) {
      if (base_price_ == 0) return;
      bottleneck_->restore_training_state(*base_);
    }
    RateOptions rate = attempts_.rate(job_.options.train);
    rate.max_bytes = job_.wanted_bytes;
    bottleneck_->restart(rate);
    bottleneck_->finish();
    Candidate landed = candidate();
    if (!points_.back().alive) landed.price = base_price_;
    consider(std::move(landed));
  }

  Outcome outcome(const PriceSearch& search) {
    Outcome outcome;
    outcome.attempts = static_cast<std::int64_t>(points_.size());
    if (job_.wanted_bytes == 0 && !search.best()) {
      outcome.target_met = false;
      outcome.note = formatted(
          "a drop of at most %.3g was asked; at the lowest price tried it is %.3g on held-back "
          "training data; try more epochs",
          *goal().drop, lowest().drop);
    } else if (job_.wanted_bytes > 0 && !best_.alive()) {
      outcome.target_met = false;
      outcome.note = nothing_alive(job_.wanted_bytes, best_.file.size());
    } else if (job_.wanted_bytes > 0 && some_dead() &&
               static_cast<std::int64_t>(best_.file.size()) > job_.wanted_bytes) {
      outcome.note = out_of_reach(job_.wanted_bytes, static_cast<std::int64_t>(best_.file.size()));
    }
    outcome.file = std::move(best_.file);
    outcome.price = best_.price;
    outcome.kept = best_.kept;
    outcome.bottleneck.emplace(std::move(*bottleneck_));
    outcome.bytes_per_step = attempts_.bytes_per_step;
    return outcome;
  }

  bool some_dead() const {
    return std::any_of(points_.begin(), points_.end(),
                       [](const PricePoint& p) { return !p.alive; });
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
  Candidate best_;
  std::shared_ptr<const Attempts::State> beginning_;
  std::shared_ptr<const Attempts::State> base_;  ///< what the next attempt goes on from
  double base_price_ = 0;                        ///< 0: that is the beginning
  bool resumed_ = false;                         ///< the next attempt was begun before
};

}  // namespace

Outcome price_attempts(Job& job) { return PriceAttempts(job).run(); }

}  // namespace gbcompress
