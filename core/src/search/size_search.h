#pragma once
/// The finest step sizes whose file is at most as large as a target, in few tries.

#include <cstdint>
#include <optional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

struct SizeRule {
  int tries = 12;  ///< at most
  /// A file at least so large, as a share of the target size, ends the search.
  double enough = 0.99;
  double aim = 0.996;  ///< size that is looked for, as a share of the target size
};

/// Bytes fall as x, the logarithm to base 2 of all step sizes, grows: by about a bit a weight and
/// octave.
class SizeSearch {
 public:
  /// @param wanted           bytes, at most
  /// @param weights          that have step sizes
  /// @param lowest, highest  of x
  SizeSearch(std::int64_t wanted, std::int64_t weights, double lowest, double highest,
             const SizeRule& rule = {});

  /// The next x to evaluate, or nothing once best() is close enough to the target.
  /// @param start  of the first evaluation, moved into [lowest, highest]; NaN: the middle of it
  std::optional<double> next(double start);
  void tried(double x, std::int64_t bytes);
  /// The least x tried whose file fits; nothing if none did.
  std::optional<double> best() const { return fits_ ? std::optional(fits_->x) : std::nullopt; }
  /// Tried last; nothing before the first.
  std::optional<double> last() const { return last_; }

 private:
  struct Point {
    double x, bytes;
  };
  double aimed_at(double x, double bytes) const;

  double wanted_, weights_, lowest_, highest_;
  SizeRule rule_;
  std::optional<Point> fits_, large_;
  std::optional<double> last_;
  int tries_ = 0;
};

}  // namespace gbcompress
