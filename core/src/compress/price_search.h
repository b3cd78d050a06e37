#pragma once
/// Which price of a bit to try next, from what the prices before it gave.

#include <cstdint>
#include <optional>
#include <vector>

namespace gbcompress {

/// What is wanted of the file; one of both.
struct PriceGoal {
  /// At most, and as near to it as can be; where that leaves no model alive, the smallest file that
  /// does.
  std::optional<std::int64_t> bytes;
  std::optional<double> drop;  ///< of quality at most, and as few bytes as can be
};

/// What training at one price gave.
struct PricePoint {
  double price = 0;        ///< lambda, above 0
  std::int64_t bytes = 0;  ///< of the file
  /// Loss of quality beside what is compared with, in the metric's unit; not looked at where bytes
  /// are wanted.
  double drop = 0;
  /// The model answers better than a constant would; looked at where bytes are wanted.
  bool alive = true;
  /// Price of the attempt that this one went on from; 0: it began at the beginning.
  double from = 0;
};

/// Bytes and loss of quality are about powers of the price, so that the next price is a secant's in
/// log-log, kept within the prices that are known to be too low and too high, and within a factor
/// of kLargestMove of the last one. The first price is tried as it is.
///
/// Where a size is wanted, an attempt goes on from the one at the highest price whose file was too
/// large. More training makes files smaller at any price, so that points are compared with those
/// that began where they did; where going on missed the size and attempts from the beginning are on
/// both sides of it, the next one begins there too.
class PriceSearch {
 public:
  static constexpr double kLargestMove = 6;
  /// A file of a wanted size is near enough from kNearBelow of it to the size itself; the search
  /// aims between.
  static constexpr double kNearBelow = 0.96, kAim = 0.985;
  /// Prices are not told apart below this factor.
  static constexpr double kSamePrice = 1.2;
  /// The same where a size is searched, which follows the price closely.
  static constexpr double kSamePriceOfSize = 1.04;

  /// @param most   attempts at most, those that are known not counted; above 0
  /// @param known  points from before
  PriceSearch(PriceGoal goal, double first_price, std::int64_t most,
              std::vector<PricePoint> known = {});

  double price() const { return price_; }
  /// PricePoint::from of the next attempt, where a size is wanted.
  double from() const { return from_; }
  /// What came of training at price(). @return whether there is another price to try
  bool tried(const PricePoint& point);
  /// Known ones first.
  const std::vector<PricePoint>& points() const { return points_; }
  /// Index of the best point: of those that keep the drop the smallest file; the file nearest to
  /// the wanted size. Unset where no point keeps the drop, or none is alive.
  std::optional<std::size_t> best() const;
  bool keeps(const PricePoint& point) const;

 private:
  double next_from() const;
  /// The points that the next attempt is compared with.
  std::vector<PricePoint> comparable() const;
  double next() const;
  /// Logarithm of the factor between the last of `points` and the price that seems right.
  double move(const std::vector<PricePoint>& points) const;
  bool too_low(const PricePoint& point) const;
  bool near(const PricePoint& point) const;

  PriceGoal goal_;
  double price_, from_ = 0;
  std::int64_t left_;
  std::vector<PricePoint> points_;
};

}  // namespace gbcompress
