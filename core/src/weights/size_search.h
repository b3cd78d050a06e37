#pragma once
/// Finds the finest steps whose file is not larger than it may be, in few tries.

#include <cstdint>
#include <optional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Bytes fall as x, the logarithm to base 2 of all steps, grows; by about a bit a number and
/// octave.
class SizeSearch {
 public:
  /// @param lowest, highest  of x
  /// @param numbers          that have steps
  SizeSearch(std::int64_t wanted, std::int64_t numbers, double lowest, double highest);

  /// The next x to try, or nothing once best() is near enough to what is wanted.
  std::optional<double> next(double start);
  void tried(double x, std::int64_t bytes);
  /// The least x tried whose file fits; nothing where none did.
  std::optional<double> best() const { return fits_ ? std::optional(fits_->x) : std::nullopt; }

 private:
  struct Point {
    double x, bytes;
  };
  double aimed_at(double x, double bytes) const;

  double wanted_, numbers_, lowest_, highest_;
  std::optional<Point> fits_, large_;
  int tries_ = 0;
};

}  // namespace gbcompress
