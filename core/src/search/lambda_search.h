#pragma once
/// Which rate weight (lambda) to train with next, from the results at earlier ones.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// What is wanted of the file; one of both.
struct LambdaGoal {
  /// At most, and as near to it as can be; if every such model is collapsed, the smallest file
  /// whose model is not.
  std::optional<std::int64_t> bytes;
  std::optional<double> drop;  ///< largest quality drop, and as few bytes as can be
};

/// Result of training at one lambda.
struct LambdaPoint {
  double lambda = 0;       ///< above 0
  std::int64_t bytes = 0;  ///< of the file
  /// Quality drop from the baseline, in the metric's unit; 0 if bytes are wanted. NaN counts as a
  /// drop above any limit.
  double drop = 0;
  /// The model answers no better than a constant; evaluated if bytes are wanted.
  bool collapsed = false;
  /// Lambda of the attempt that this one continued; 0: it began at the beginning.
  double from = 0;

  bool operator==(const LambdaPoint&) const = default;
};

/// Bytes and quality drop are about powers of lambda, so that the next lambda is a secant's in
/// log-log, kept within the ones that are known to be too low and too high, and within a factor of
/// kLargestMove of the last one. The first lambda is tried as it is.
///
/// If a size is wanted, an attempt continues the one at the highest lambda whose file was too
/// large. More training makes files smaller at any lambda, so that points are compared with those
/// that began where they did; if attempts that continue missed the size and attempts from the
/// beginning are on both sides of it, the next one begins there too.
class LambdaSearch {
 public:
  static constexpr double kLargestMove = 6;
  /// A file of a wanted size is near enough from kNearBelow of it to the size itself; the search
  /// aims between.
  static constexpr double kNearBelow = 0.96, kAim = 0.985;
  /// The search ends at a lambda within this factor of the last one.
  static constexpr double kSameLambda = 1.2;
  /// The same if a size is searched, which follows lambda closely.
  static constexpr double kSameLambdaOfSize = 1.04;

  /// @param most   attempts at most, known ones not counted; above 0
  /// @param known  points from before
  LambdaSearch(LambdaGoal goal, double first_lambda, std::int64_t most,
               std::vector<LambdaPoint> known = {});

  double lambda() const { return lambda_; }
  /// LambdaPoint::from of the next attempt, if a size is wanted.
  double from() const { return from_; }
  /// @param point  result of training at lambda()
  /// @return whether there is another lambda to try
  bool tried(const LambdaPoint& point);
  /// Known ones first.
  const std::vector<LambdaPoint>& points() const { return points_; }
  /// Index of the best point: of those that keep the drop the smallest file; the file nearest to
  /// the wanted size. Unset if no point keeps the drop, or all are collapsed.
  std::optional<std::size_t> best() const;
  bool keeps(const LambdaPoint& point) const;

 private:
  double next_from() const;
  /// The points that the next attempt is compared with.
  std::vector<LambdaPoint> comparable() const;
  double next() const;
  /// Logarithm of the factor between the last of `points` and the lambda that meets the goal.
  double move(const std::vector<LambdaPoint>& points) const;
  bool too_low(const LambdaPoint& point) const;
  bool near(const LambdaPoint& point) const;

  LambdaGoal goal_;
  double lambda_, from_ = 0;
  std::int64_t left_;
  std::vector<LambdaPoint> points_;
};

}  // namespace gbcompress
