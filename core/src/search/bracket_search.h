#pragma once
/// Search for the last value of a scalar for which a condition holds.

#include <cstdint>
#include <limits>
#include <optional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

enum class Scale : std::uint8_t {
  kLinear,   ///< a bracket is cut at its mean
  kLog,      ///< at its geometric mean; values are above 0
  kInteger,  ///< at the integer at or below its mean
};

struct BracketRule {
  Scale scale = Scale::kLinear;
  /// Values that are tried between one that holds and one that does not.
  int cuts = std::numeric_limits<int>::max();
  /// A bracket at most this wide is not cut: a difference, on the logarithmic scale a quotient.
  double resolution = 0;
  /// Until a value holds, the next one is so many times the last one.
  double stride = 2;
  int strides = 0;  ///< at most
  /// No stride leads on from a value at or above it.
  double limit = std::numeric_limits<double>::infinity();
};

/// Where a search stands: plain data. The values on both sides may be known (or assumed) from the
/// start, and either side may be the larger one.
struct BracketState {
  double first = 0;                  ///< tried first, unless both sides are known
  std::optional<double> holds = {};  ///< the value nearest to `fails` that holds
  std::optional<double> fails = {};  ///< the value nearest to `holds` that does not
  std::optional<double> last = {};   ///< tried last
  int strides = 0, cuts = 0;         ///< made
};

/// Strides from the first value until one holds, then cuts the bracket between it and the last one
/// that failed. For a monotone condition holds() converges to the last value that holds; for any
/// condition it is a value that was tried and held. A condition on NaN is one that does not hold.
class BracketSearch {
 public:
  BracketSearch(const BracketRule& rule, const BracketState& state) : rule_(rule), state_(state) {}

  /// The next value to try; nothing at the end.
  /// @param guess  of the last value that holds; is moved inside of the bracket by half of the
  ///               resolution (integers: by 1). Without one, or for NaN: the middle.
  std::optional<double> next(std::optional<double> guess = {}) const;
  /// @param x  from next()
  void tried(double x, bool holds);

  /// Nothing where no value held.
  std::optional<double> holds() const { return state_.holds; }
  std::optional<double> fails() const { return state_.fails; }
  /// Values that were tried.
  int tries() const { return tries_; }
  const BracketState& state() const { return state_; }

 private:
  bool narrow() const;
  double middle() const;
  double inside(double guess) const;

  BracketRule rule_;
  BracketState state_;
  int tries_ = 0;
};

/// The largest integer of [low, high] for which `holds` is true, which must be so up to some value;
/// `low` where it is true for none above. `holds(low)` is not called.
template <typename Holds>
int last_that_holds(int low, int high, const Holds& holds) {
  BracketSearch search({.scale = Scale::kInteger},
                       {.holds = low, .fails = static_cast<double>(high) + 1});
  while (const auto x = search.next()) search.tried(*x, holds(static_cast<int>(*x)));
  return static_cast<int>(*search.holds());
}

}  // namespace gbcompress
