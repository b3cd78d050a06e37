#include "compress/price_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace gbcompress {
namespace {

/// Slope of log(bytes) over log(price) where only one price is known: files of many models have
/// 0.3 to 0.8 times the bytes at four times the price.
constexpr double kBytesSlope = -0.5;
constexpr double kSteepestBytes = -1.2, kFlattestBytes = -0.15;
/// Slope of log(drop) over log(price), likewise.
constexpr double kDropSlope = 1.0;
constexpr double kFlattestDrop = 0.5, kSteepestDrop = 3;
/// Where nothing is lost yet, or nothing may be, a secant says nothing; the price changes by this.
constexpr double kStride = 3;
/// Between a price that is too low and one that is too high the next one keeps this part of the
/// (logarithmic) distance from both; bytes follow the price closely, drops are noisy.
constexpr double kMargin = 0.2, kBytesMargin = 0.03;
/// The same where the price that is too high leaves no model alive: the size that was wanted is out
/// of reach, and the secant to it says nothing.
constexpr double kDeadMargin = 0.4;
/// Losses below this part of the wanted one are noise.
constexpr double kLeastDrop = 0.1;

double log_of(std::int64_t bytes) {
  return std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1)));
}

}  // namespace

PriceSearch::PriceSearch(PriceGoal goal, double first_price, std::int64_t most,
                         std::vector<PricePoint> known)
    : goal_(goal), price_(first_price), left_(most), points_(std::move(known)) {}

bool PriceSearch::keeps(const PricePoint& point) const {
  return goal_.bytes ? point.bytes <= *goal_.bytes : point.drop <= *goal_.drop;
}

/// Too low a price keeps quality and too high a one keeps the size, or leaves nothing alive.
bool PriceSearch::too_low(const PricePoint& point) const {
  return goal_.bytes ? point.alive && !keeps(point) : keeps(point);
}

bool PriceSearch::near(const PricePoint& point) const {
  return goal_.bytes && point.alive && keeps(point) &&
         static_cast<double>(point.bytes) >= kNearBelow * static_cast<double>(*goal_.bytes);
}

bool PriceSearch::tried(const PricePoint& point) {
  points_.push_back(point);
  if (near(point) || --left_ <= 0) return false;
  const double last = point.price, last_from = from_;
  from_ = next_from();
  price_ = next();
  if (from_ != last_from) return true;
  return std::fabs(std::log(price_ / last)) > std::log(goal_.bytes ? kSamePriceOfSize : kSamePrice);
}

double PriceSearch::move(const std::vector<PricePoint>& points) const {
  const PricePoint& last = points.back();
  const PricePoint* before = points.size() > 1 ? &points[points.size() - 2] : nullptr;
  const double run = before ? std::log(last.price / before->price) : 0;
  if (!last.alive) return -std::log(kLargestMove);
  if (goal_.bytes) {
    double slope = kBytesSlope;
    if (before && run != 0) slope = (log_of(last.bytes) - log_of(before->bytes)) / run;
    slope = std::clamp(slope, kSteepestBytes, kFlattestBytes);
    return (std::log(kAim) + log_of(*goal_.bytes) - log_of(last.bytes)) / slope;
  }
  const double least = kLeastDrop * *goal_.drop;
  if (!(least > 0) || last.drop <= least) return std::log(keeps(last) ? kStride : 1 / kStride);
  double slope = kDropSlope;
  if (before && run != 0 && before->drop > least) slope = std::log(last.drop / before->drop) / run;
  return std::log(*goal_.drop / last.drop) / std::clamp(slope, kFlattestDrop, kSteepestDrop);
}

double PriceSearch::next_from() const {
  if (!goal_.bytes) return 0;
  double from = 0;
  for (const PricePoint& p : points_)
    if (too_low(p)) from = std::max(from, p.price);
  bool went_on = false, larger = false, smaller = false;
  for (const PricePoint& p : points_) {
    went_on = went_on || (from > 0 && p.from == from);
    if (p.from == 0 && p.alive) (too_low(p) ? larger : smaller) = true;
  }
  return went_on && larger && smaller ? 0 : from;
}

std::vector<PricePoint> PriceSearch::comparable() const {
  if (!goal_.bytes) return points_;
  std::vector<PricePoint> points;
  std::copy_if(points_.begin(), points_.end(), std::back_inserter(points),
               [&](const PricePoint& p) { return p.from == from_; });
  return points.empty() ? points_ : points;
}

double PriceSearch::next() const {
  const double most = std::log(kLargestMove);
  const std::vector<PricePoint> points = comparable();
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  bool dead = false;  // at the price `high`
  double low_drop = 0, high_drop = 0;
  for (const PricePoint& p : points) {
    const double at = std::log(p.price);
    if (too_low(p) && at > low) {
      low = at;
      low_drop = p.drop;
    } else if (!too_low(p) && at < high) {
      high = at;
      high_drop = p.drop;
      dead = !p.alive;
    }
  }
  double at = std::log(points.back().price) + std::clamp(move(points), -most, most);
  // A drop grows faster than the logarithm of the price, so that the chord ends on the safe side.
  if (goal_.drop && low < high && std::isfinite(low) && std::isfinite(high) &&
      low_drop <= kLeastDrop * *goal_.drop)
    at = low + (high - low) * (*goal_.drop - low_drop) / (high_drop - low_drop);
  if (low < high && std::isfinite(low) && std::isfinite(high)) {
    const double margin = (dead ? kDeadMargin : goal_.bytes ? kBytesMargin : kMargin);
    at = std::clamp(at, low + margin * (high - low), high - margin * (high - low));
  }
  return std::exp(at);
}

std::optional<std::size_t> PriceSearch::best() const {
  std::optional<std::size_t> found;
  const auto distance = [&](const PricePoint& p) {
    return goal_.bytes ? std::fabs(log_of(p.bytes) - log_of(*goal_.bytes)) : log_of(p.bytes);
  };
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (goal_.drop && !keeps(points_[i])) continue;
    if (!points_[i].alive) continue;
    if (!found || distance(points_[i]) <= distance(points_[*found])) found = i;
  }
  return found;
}

}  // namespace gbcompress
