#include "search/lambda_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace gbcompress {
namespace {

/// Slope of log(bytes) over log(lambda) if only one lambda is known: files of many models have
/// 0.3 to 0.8 times the bytes at four times the lambda.
constexpr double kBytesSlope = -0.5;
constexpr double kSteepestBytes = -1.2, kFlattestBytes = -0.15;
/// Slope of log(drop) over log(lambda), likewise.
constexpr double kDropSlope = 1.0;
constexpr double kFlattestDrop = 0.5, kSteepestDrop = 3;
/// If the drop or its limit is 0 there is no secant; lambda changes by this factor.
constexpr double kStride = 3;
/// Between a lambda that is too low and one that is too high the next one keeps this part of the
/// (logarithmic) distance from both; bytes follow lambda closely, drops are noisy.
constexpr double kMargin = 0.2, kBytesMargin = 0.03;
/// The same if the model at the higher one is collapsed: the wanted size is out of reach, and so is
/// the secant's value.
constexpr double kCollapsedMargin = 0.4;
/// Drops below this part of the limit are noise.
constexpr double kLeastDrop = 0.1;

/// A drop that is no number is above every limit.
LambdaPoint ordered(LambdaPoint point) {
  if (std::isnan(point.drop)) point.drop = std::numeric_limits<double>::infinity();
  return point;
}

double log_of(std::int64_t bytes) {
  return std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

}  // namespace

LambdaSearch::LambdaSearch(LambdaGoal goal, double first_lambda, std::int64_t most,
                           std::vector<LambdaPoint> known)
    : goal_(goal), lambda_(first_lambda), left_(most), points_(std::move(known)) {
  for (LambdaPoint& point : points_) point = ordered(point);
}

bool LambdaSearch::keeps(const LambdaPoint& point) const {
  return goal_.bytes ? point.bytes <= *goal_.bytes : point.drop <= *goal_.drop;
}

/// Too low a lambda keeps quality; too high a one keeps the size, or the model collapses.
bool LambdaSearch::too_low(const LambdaPoint& point) const {
  return goal_.bytes ? !point.collapsed && !keeps(point) : keeps(point);
}

bool LambdaSearch::near(const LambdaPoint& point) const {
  return goal_.bytes && !point.collapsed && keeps(point) &&
         static_cast<double>(point.bytes) >= kNearBelow * static_cast<double>(*goal_.bytes);
}

bool LambdaSearch::tried(const LambdaPoint& point) {
  points_.push_back(ordered(point));
  if (near(point) || --left_ <= 0) return false;
  const double last = point.lambda, last_from = from_;
  from_ = next_from();
  lambda_ = next();
  if (from_ != last_from) return true;
  return std::fabs(std::log(lambda_ / last)) >
         std::log(goal_.bytes ? kSameLambdaOfSize : kSameLambda);
}

double LambdaSearch::move(const std::vector<LambdaPoint>& points) const {
  const LambdaPoint& last = points.back();
  const LambdaPoint* before = points.size() > 1 ? &points[points.size() - 2] : nullptr;
  const double run = before ? std::log(last.lambda / before->lambda) : 0;
  if (last.collapsed) return -std::log(kLargestMove);
  if (goal_.bytes) {
    double slope = kBytesSlope;
    if (before && run != 0) slope = (log_of(last.bytes) - log_of(before->bytes)) / run;
    slope = std::clamp(slope, kSteepestBytes, kFlattestBytes);
    return (std::log(kAim) + log_of(*goal_.bytes) - log_of(last.bytes)) / slope;
  }
  const double least = kLeastDrop * *goal_.drop;
  if (!(least > 0) || last.drop <= least) return std::log(keeps(last) ? kStride : 1 / kStride);
  if (!std::isfinite(last.drop)) return -std::log(kLargestMove);
  double slope = kDropSlope;
  if (before && run != 0 && before->drop > least && std::isfinite(before->drop))
    slope = std::log(last.drop / before->drop) / run;
  return std::log(*goal_.drop / last.drop) / std::clamp(slope, kFlattestDrop, kSteepestDrop);
}

double LambdaSearch::next_from() const {
  if (!goal_.bytes) return 0;
  double from = 0;
  for (const LambdaPoint& p : points_)
    if (too_low(p)) from = std::max(from, p.lambda);
  bool continued = false, larger = false, smaller = false;
  for (const LambdaPoint& p : points_) {
    continued = continued || (from > 0 && p.from == from);
    if (p.from == 0 && !p.collapsed) (too_low(p) ? larger : smaller) = true;
  }
  return continued && larger && smaller ? 0 : from;
}

std::vector<LambdaPoint> LambdaSearch::comparable() const {
  if (!goal_.bytes) return points_;
  std::vector<LambdaPoint> points;
  std::copy_if(points_.begin(), points_.end(), std::back_inserter(points),
               [&](const LambdaPoint& p) { return p.from == from_; });
  return points.empty() ? points_ : points;
}

double LambdaSearch::next() const {
  const double most = std::log(kLargestMove);
  const std::vector<LambdaPoint> points = comparable();
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  bool collapsed = false;  // at the lambda `high`
  double low_drop = 0, high_drop = 0;
  for (const LambdaPoint& p : points) {
    const double at = std::log(p.lambda);
    if (too_low(p) && at > low) {
      low = at;
      low_drop = p.drop;
    } else if (!too_low(p) && at < high) {
      high = at;
      high_drop = p.drop;
      collapsed = p.collapsed;
    }
  }
  double at = std::log(points.back().lambda) + std::clamp(move(points), -most, most);
  // A drop grows faster than the logarithm of lambda, so that the chord ends on the safe side.
  if (goal_.drop && low < high && std::isfinite(low) && std::isfinite(high) &&
      low_drop <= kLeastDrop * *goal_.drop)
    at = low + (high - low) * (*goal_.drop - low_drop) / (high_drop - low_drop);
  if (low < high && std::isfinite(low) && std::isfinite(high)) {
    const double margin = (collapsed ? kCollapsedMargin : goal_.bytes ? kBytesMargin : kMargin);
    at = std::clamp(at, low + margin * (high - low), high - margin * (high - low));
  }
  return std::exp(at);
}

std::optional<std::size_t> LambdaSearch::best() const {
  std::optional<std::size_t> found;
  const auto distance = [&](const LambdaPoint& p) {
    return goal_.bytes ? std::fabs(log_of(p.bytes) - log_of(*goal_.bytes)) : log_of(p.bytes);
  };
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (goal_.drop && !keeps(points_[i])) continue;
    if (points_[i].collapsed) continue;
    if (!found || distance(points_[i]) <= distance(points_[*found])) found = i;
  }
  return found;
}

}  // namespace gbcompress
