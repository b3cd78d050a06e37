// Prices that are tried, on curves of which everything is known.
#include "compress/price_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace gbcompress {
namespace {

/// Bytes and drop at a price.
using Curve = std::function<PricePoint(double price)>;

struct Found {
  std::optional<PricePoint> best;
  int tries = 0;
};
Found search(const PriceGoal& goal, const Curve& curve, double first, int most,
             std::vector<PricePoint> known = {}) {
  PriceSearch search(goal, first, most, std::move(known));
  Found found;
  for (bool more = true; more; ++found.tries) {
    EXPECT_GT(search.price(), 0);
    more = search.tried(curve(search.price()));
  }
  if (const auto best = search.best()) found.best = search.points()[*best];
  return found;
}

/// Bytes fall with a power of the price towards a rest that always stays; the drop grows with one.
Curve power(double bytes_at_1, double bytes_slope, double drop_at_1, double drop_slope) {
  return [=](double price) {
    return PricePoint{price,
                      static_cast<std::int64_t>(90 + bytes_at_1 * std::pow(price, bytes_slope)),
                      drop_at_1 * std::pow(price, drop_slope)};
  };
}

TEST(PriceSearch, LandsNearAWantedSizeInThreeAttempts) {
  for (const double slope : {-0.3, -0.5, -0.9})
    for (const std::int64_t wanted : {700, 2000, 9000})
      for (const double first : {0.02, 0.1, 0.5}) {
        const Curve curve = power(1000, slope, 1, 1);
        // A first price within a factor of 20 of the right one, as a guess from the data is.
        const double right = std::pow(static_cast<double>(wanted - 90) / 1000, 1 / slope);
        if (std::fabs(std::log(right / first)) > std::log(20)) continue;
        const Found found = search({.bytes = wanted, .drop = {}}, curve, first, 4);
        ASSERT_TRUE(found.best);
        EXPECT_NEAR(static_cast<double>(found.best->bytes) / static_cast<double>(wanted), 1, 0.05)
            << "slope " << slope << ", wanted " << wanted << ", first " << first;
        EXPECT_LE(found.tries, 4);
      }
}

/// An attempt that goes on from one whose file was too large makes a smaller file at the same price
/// too.
TEST(PriceSearch, GoesBelowAPriceThatWasTooLowWhereAttemptsGoOnFromIt) {
  for (const double slope : {-0.4, -0.8, -1.2})
    for (const double shrinks : {0.8, 0.9, 0.97}) {
      PriceSearch search({.bytes = 900, .drop = {}}, 0.8, 6);
      double from = 0;
      for (bool more = true; more;) {
        const double price = search.price();
        const double bytes = 880 * std::pow(price, slope) * (from > 0 ? shrinks : 1);
        const PricePoint point{
            .price = price, .bytes = static_cast<std::int64_t>(bytes), .from = from};
        more = search.tried(point);
        if (!search.keeps(point)) from = std::max(from, price);
      }
      const PricePoint best = search.points()[search.best().value()];
      EXPECT_LE(best.bytes, 900) << slope << " " << shrinks;
      EXPECT_GE(best.bytes, 855) << slope << " " << shrinks;
    }
}

TEST(PriceSearch, StopsWhereTheSizeIsMet) {
  const Found found = search({.bytes = 1090, .drop = {}}, power(1000, -0.5, 1, 1), /*first=*/1, 6);
  EXPECT_EQ(found.tries, 1);
  EXPECT_EQ(found.best->bytes, 1090);
}

TEST(PriceSearch, FindsTheSmallestFileThatKeepsTheDrop) {
  for (const double drop_slope : {0.7, 1.0, 2.0})
    for (const double allowed : {0.03, 0.3, 1.0, 3.0}) {
      const Curve curve = power(1000, -0.5, 1, drop_slope);
      const double right = std::pow(allowed, 1 / drop_slope);
      const PricePoint reference = curve(right / 30);
      const Found found = search({.bytes = {}, .drop = allowed}, curve, right / 3, 6, {reference});
      ASSERT_TRUE(found.best);
      EXPECT_LE(found.best->drop, allowed);
      EXPECT_LE(static_cast<double>(found.best->bytes),
                1.15 * static_cast<double>(curve(right).bytes))
          << "slope " << drop_slope << ", allowed " << allowed;
    }
}

TEST(PriceSearch, ComesDownFromAPriceThatIsTooHigh) {
  const Curve curve = power(1000, -0.5, 1, 1);
  const Found found = search({.bytes = {}, .drop = 0.1}, curve, /*first=*/5, 6);
  ASSERT_TRUE(found.best);
  EXPECT_LE(found.best->drop, 0.1);
  EXPECT_GT(found.best->price, 0.1 / 3);
}

TEST(PriceSearch, NothingThatKeepsTheDropIsNoBest) {
  const Found found = search(
      {.bytes = {}, .drop = 0.1},
      [](double price) {
        return PricePoint{price, 1000, 5};
      },
      1, 4);
  EXPECT_FALSE(found.best);
  EXPECT_EQ(found.tries, 4);
}

TEST(PriceSearch, ADropOfNothingAndNoisyGainsMoveByStrides) {
  const Curve gains = [](double price) { return PricePoint{price, 1000, -0.2}; };
  PriceSearch search({.bytes = {}, .drop = 0}, 1, 3);
  EXPECT_TRUE(search.tried(gains(1)));
  const double second = search.price();
  EXPECT_GT(second, 1.5);
  EXPECT_LE(second, PriceSearch::kLargestMove);
  EXPECT_TRUE(search.tried({second, 900, 0.5}));
  EXPECT_GT(search.price(), 1) << "between what kept it";
  EXPECT_LT(search.price(), second) << "and what did not";
  EXPECT_FALSE(search.tried({search.price(), 950, 0.5}));
  EXPECT_EQ(search.best(), 0u);
}

/// A secant in log-log says nothing where the lower price has lost nothing.
TEST(PriceSearch, ADropBesideAGainIsInterpolated) {
  PriceSearch search({.bytes = {}, .drop = 0.03}, 0.54, 4);
  EXPECT_TRUE(search.tried({0.54, 119'000, 0.07}));
  EXPECT_TRUE(search.tried({0.225, 167'000, -0.004}));
  EXPECT_NEAR(std::log(search.price() / 0.225) / std::log(0.54 / 0.225), 0.034 / 0.074, 0.01);
}

/// Above some price the model is lost, and its file is still too large.
TEST(PriceSearch, ComesBackFromPricesThatLeaveNothingAlive) {
  for (const double edge : {0.3, 2.0, 20.0}) {
    const Curve fragile = [&](double price) {
      const bool alive = price < edge;
      return PricePoint{price, static_cast<std::int64_t>(alive ? 1000 / std::sqrt(price) : 200), 0,
                        alive};
    };
    for (const std::int64_t wanted : {100, 210}) {
      const Found found = search({.bytes = wanted, .drop = {}}, fragile, 1, 6);
      ASSERT_TRUE(found.best) << "edge " << edge;
      EXPECT_TRUE(found.best->alive);
      EXPECT_LT(found.best->price, edge);
      EXPECT_GT(found.best->price, edge / 4);
    }
  }
}

TEST(PriceSearch, WithNothingAliveThereIsNoBest) {
  const Curve dead = [](double price) { return PricePoint{price, 90, 0, false}; };
  EXPECT_FALSE(search({.bytes = 100, .drop = {}}, dead, 1, 4).best);
}

TEST(PriceSearch, FilesThatDoNotMoveEndTheSearch) {
  int tries = 0;
  const Found found = search(
      {.bytes = 500, .drop = {}},
      [&](double price) {
        ++tries;
        return PricePoint{price, 2000, 0};
      },
      1, 5);
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(found.best->bytes, 2000) << "the nearest there is";
}

}  // namespace
}  // namespace gbcompress
