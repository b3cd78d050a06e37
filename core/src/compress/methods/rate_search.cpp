#include "compress/methods/rate_search.h"

#include <algorithm>
#include <cmath>

#include "compress/methods/methods.h"
#include "compress/notes.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// Lambda of the baseline run over the one where a search begins: low enough to cost no quality,
/// high enough to bring the integers on their way.
constexpr double kBaselineLambda = 0.1;
/// A file that is smaller than wanted by less than this is not given up for one that is cut down.
constexpr double kCut = 1.15;

}  // namespace

bool serves_better(const Candidate& a, const Candidate& b, std::int64_t wanted) {
  const auto size = static_cast<std::size_t>(wanted);
  const auto fits = [&](const Candidate& c) { return !c.collapsed() && c.file.size() <= size; };
  if (b.file.empty() || a.file.empty()) return b.file.empty();
  if (fits(a) != fits(b)) return fits(a);
  if (fits(a)) return a.loss < b.loss;
  if (a.collapsed() != b.collapsed()) return b.collapsed();
  return a.collapsed() ? a.kept > b.kept : a.file.size() < b.file.size();
}

RateSearchResult RateSearch::result() {
  base_ = run_.beginning();
  resume();
  if (request_.baseline_run && points_.empty()) baseline();
  bool more = true;
  LambdaSearch search = search_so_far(more);
  while (more) {
    const auto begin = Clock::now();
    const LambdaPoint point = attempt(search.lambda(), from_of(search), /*baseline=*/false);
    more = search.tried(point);
    const bool time = run_.time_for(Clock::now() - begin);
    std::optional<Candidate> last;
    if (time && may_be_leakage(search, point)) {
      last = candidate();
      take_leakage_off();
      search = search_so_far(more);
    }
    more = more && time;
    keep(search, more, std::move(last));
  }
  return outcome(search);
}

LambdaGoal RateSearch::goal() const {
  if (sized()) return {.bytes = request_.bytes, .drop = {}};
  // The limit, as far as these data can tell.
  return {.bytes = {}, .drop = std::hypot(request_.drop, run_.noise())};
}

/// With all attempts so far. @param more  becomes whether there is another lambda to try
LambdaSearch RateSearch::search_so_far(bool& more) const {
  LambdaSearch search(goal(), request_.first_lambda,
                      request_.attempts - (request_.baseline_run ? 1 : 0), known());
  more = true;
  for (std::size_t i = known().size(); more && i < points_.size(); ++i)
    more = search.tried(points_[i]);
  return search;
}

/// The baseline run is known to the search and no attempt of it.
std::vector<LambdaPoint> RateSearch::known() const {
  return request_.baseline_run ? std::vector<LambdaPoint>{points_.front()}
                               : std::vector<LambdaPoint>();
}

/// If a size is wanted the search says where the next attempt begins; else from the base.
double RateSearch::from_of(const LambdaSearch& search) const {
  return sized() ? search.from() : base_lambda_;
}

void RateSearch::resume() {
  std::optional<LambdaRun::Resumed> resumed = run_.resumed();
  if (!resumed) return;
  points_ = std::move(resumed->search.points);
  if (points_.empty())
    throw Error(Errc::kCorrupt,
                "the checkpoint holds no results of earlier attempts; use another one, or start "
                "again without `resume`");
  best_ = {.file = std::move(resumed->best_file),
           .lambda = resumed->search.best_lambda,
           .kept = resumed->search.best_kept,
           .loss = resumed->search.best_loss};
  base_lambda_ = resumed->search.base_lambda;
  if (resumed->base) base_ = resumed->base;
}

void RateSearch::baseline() {
  attempt(kBaselineLambda * request_.first_lambda, 0, /*baseline=*/true);
  best_ = candidate();
  continue_from_here();
  save();
}

LambdaPoint RateSearch::attempt(double lambda, double from, bool baseline) {
  const LambdaPoint point = run_.attempt(lambda, from, baseline);
  points_.push_back(point);
  run_.tell(line(point, baseline));
  run_.show(point, static_cast<std::int64_t>(points_.size()), baseline);
  return point;
}

bool RateSearch::may_be_leakage(const LambdaSearch& search, const LambdaPoint& point) {
  return request_.looks_for_leakage && !search.keeps(point) && run_.may_leak(request_.drop);
}

void RateSearch::take_leakage_off() {
  const double leakage = run_.leakage();
  for (LambdaPoint& p : points_) p.drop -= leakage;
  run_.tell(formatted(
      "the given model is overfit to the held-out split; %.3g of the quality drop is leakage, "
      "which training without these samples does not reach either, and is not counted",
      leakage));
}

Candidate RateSearch::candidate() {
  Candidate candidate = run_.candidate();
  candidate.lambda = points_.back().lambda;
  return candidate;
}

void RateSearch::continue_from_here() {
  base_ = run_.state();
  base_lambda_ = points_.back().lambda;
}

/// Keeps the file of the last attempt if it is the best one so far, and goes where the next begins.
/// @param made  that file, if it is there already
void RateSearch::keep(const LambdaSearch& search, bool more, std::optional<Candidate> made) {
  const LambdaPoint& last = search.points().back();
  if (sized()) {
    consider(candidate());
    if (!more) cut_last();
  } else if (search.best() == search.points().size() - 1) {
    best_ = made ? *std::move(made) : candidate();
  }
  const bool too_low = sized() ? !last.collapsed && !search.keeps(last) : search.keeps(last);
  const bool from_here = too_low && last.lambda > base_lambda_;
  if (from_here) continue_from_here();
  if (more && sized() && search.from() == 0)
    run_.restore(run_.beginning());
  else if (more && !from_here)
    run_.restore(base_);
  save();
}

void RateSearch::consider(Candidate candidate) {
  if (serves_better(candidate, best_, request_.bytes)) best_ = std::move(candidate);
}

/// Cuts the last attempt down to the wanted size if no file fits well; if the last one is
/// collapsed, the one that it began with. Weights that were trained for their integers answer much
/// worse when these are chosen anew, so that this is the last resort.
void RateSearch::cut_last() {
  const auto wanted = static_cast<double>(request_.bytes);
  const auto size = static_cast<double>(best_.file.size());
  if (!best_.collapsed() && size <= wanted && size * kCut > wanted) return;
  const bool collapsed = points_.back().collapsed;
  if (collapsed) {
    if (base_lambda_ == 0) return;
    run_.restore(base_);
  }
  Candidate cut = run_.cut_to(request_.bytes);
  cut.lambda = collapsed ? base_lambda_ : points_.back().lambda;
  consider(std::move(cut));
}

void RateSearch::save() {
  LambdaSearchState state;
  state.points = points_;
  state.best_lambda = best_.lambda;
  state.best_kept = best_.kept;
  state.best_loss = best_.loss;
  state.base_lambda = base_lambda_;
  run_.save(std::move(state), best_.file, base_lambda_ > 0 ? base_ : nullptr);
}

std::string RateSearch::line(const LambdaPoint& point, bool baseline) const {
  std::string line = formatted("attempt %zu: lambda %.3g, %lld bytes", points_.size(), point.lambda,
                               static_cast<long long>(point.bytes));
  if (baseline)
    line += ", the baseline run";
  else if (request_.baseline_run)
    line += ", " + run_.drop_text(point.drop) + " on the held-out split";
  if (point.collapsed) line += ", collapsed (below half of the original's quality above chance)";
  return line;
}

/// Which attempt the file is of, and why that one.
std::string RateSearch::taken() const {
  std::size_t at = points_.size();
  for (std::size_t i = points_.size(); i-- > 0;)
    if (points_[i].lambda == best_.lambda) at = i;
  if (at == points_.size()) return "";
  std::string why;
  if (!sized())
    why = "the smallest file with a " + run_.drop_text(*goal().drop) +
          " at most on the held-out split; it has a " + run_.drop_text(points_[at].drop);
  else if (static_cast<std::int64_t>(best_.file.size()) <= request_.bytes)
    why = formatted("the lowest loss of the files of at most %lld bytes",
                    static_cast<long long>(request_.bytes));
  else
    why = "the smallest file whose model is not collapsed";
  return formatted("attempt %zu of %zu taken: lambda %.3g, %zu bytes, ", at + 1, points_.size(),
                   best_.lambda, best_.file.size()) +
         why;
}

RateSearchResult RateSearch::outcome(const LambdaSearch& search) {
  RateSearchResult result;
  const auto size = static_cast<std::int64_t>(best_.file.size());
  const bool some_collapsed =
      std::any_of(points_.begin(), points_.end(), [](const LambdaPoint& p) { return p.collapsed; });
  if (!sized() && !search.best()) {
    result.target_met = false;
    const auto lowest = std::min_element(
        points_.begin(), points_.end(),
        [](const LambdaPoint& a, const LambdaPoint& b) { return a.lambda < b.lambda; });
    result.note = formatted(
        "the largest quality drop allowed is %.3g; with the smallest lambda tried it is %.3g on "
        "the held-out split; use more epochs",
        *goal().drop, lowest->drop);
  } else if (sized() && best_.collapsed()) {
    result.target_met = false;
    result.note = all_collapsed(request_.bytes, best_.file.size());
  } else if (sized() && some_collapsed && size > request_.bytes) {
    result.note = out_of_reach(request_.bytes, size);
  }
  if (result.target_met) result.taken = taken();
  result.points = points_;
  result.best = std::move(best_);
  return result;
}

Candidate RateSearchMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  RateSearchResult found = RateSearch(run, {.bytes = plan.max_bytes,
                                            .drop = plan.max_drop.value_or(0),
                                            .baseline_run = plan.held_out > 0,
                                            .looks_for_leakage = run.looks_for_leakage(),
                                            .first_lambda = run.first_lambda(),
                                            .attempts = run.most_attempts()})
                               .result();
  Candidate candidate = std::move(found.best);
  candidate.target_met = found.target_met;
  candidate.note = std::move(found.note);
  candidate.taken = std::move(found.taken);
  candidate.attempts = static_cast<std::int64_t>(found.points.size());
  return candidate;
}

}  // namespace gbcompress
