#include "search/size_search.h"

#include <algorithm>
#include <cmath>

namespace gbcompress {
namespace {

/// A sixty-fourth of an octave changes almost nothing.
constexpr double kFinest = 1.0 / 64;

}  // namespace

SizeSearch::SizeSearch(std::int64_t wanted, std::int64_t weights, double lowest, double highest,
                       const SizeRule& rule)
    : wanted_(static_cast<double>(wanted)),
      weights_(static_cast<double>(std::max<std::int64_t>(weights, 1))),
      lowest_(lowest),
      highest_(highest),
      rule_(rule) {}

double SizeSearch::aimed_at(double x, double bytes) const {
  return x + 8 * (bytes - rule_.aim * wanted_) / weights_;
}

std::optional<double> SizeSearch::next(double start) {
  if (tries_ >= rule_.tries) return {};
  if (tries_ == 0)
    return std::isnan(start) ? (lowest_ + highest_) / 2 : std::clamp(start, lowest_, highest_);
  if (!fits_) {
    if (large_->x >= highest_) return {};
    // At low rates an octave changes less than a bit: farther each time.
    const double ahead = aimed_at(large_->x, large_->bytes) - large_->x;
    return std::min(highest_, large_->x + std::max(kFinest, ahead * (1 + 0.5 * (tries_ - 1))));
  }
  if (fits_->bytes >= rule_.enough * wanted_ || fits_->x <= lowest_) return {};
  if (!large_) {
    // Steps that are coarser than their tensors allow change nothing before they are fine enough.
    const double ahead = fits_->x - aimed_at(fits_->x, fits_->bytes);
    return std::max(lowest_, fits_->x - std::ldexp(ahead, tries_ - 1));
  }
  if (fits_->x - large_->x <= kFinest) return {};
  const double share = (std::log(large_->bytes) - std::log(rule_.aim * wanted_)) /
                       (std::log(large_->bytes) - std::log(fits_->bytes));
  return large_->x + std::clamp(share, 0.1, 0.9) * (fits_->x - large_->x);
}

void SizeSearch::tried(double x, std::int64_t bytes) {
  ++tries_;
  last_ = x;
  const Point point{x, static_cast<double>(bytes)};
  if (point.bytes <= wanted_) {
    if (!fits_ || x < fits_->x) fits_ = point;
  } else if (!large_ || x > large_->x) {
    large_ = point;
  }
}

}  // namespace gbcompress
