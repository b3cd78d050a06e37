// Lambdas that are tried, on curves of which everything is known.
#include "search/lambda_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace gbcompress {
namespace {

/// Bytes and drop at a lambda.
using Curve = std::function<LambdaPoint(double lambda)>;

struct Found {
  std::optional<LambdaPoint> best;
  int tries = 0;
};
Found search(const LambdaGoal& goal, const Curve& curve, double first, int most,
             std::vector<LambdaPoint> known = {}) {
  LambdaSearch search(goal, first, most, std::move(known));
  Found found;
  for (bool more = true; more; ++found.tries) {
    EXPECT_GT(search.lambda(), 0);
    more = search.tried(curve(search.lambda()));
  }
  if (const auto best = search.best()) found.best = search.points()[*best];
  return found;
}

/// Bytes fall with a power of lambda towards a rest that always stays; the drop grows with one.
Curve power(double bytes_at_1, double bytes_slope, double drop_at_1, double drop_slope) {
  return [=](double lambda) {
    return LambdaPoint{lambda,
                       static_cast<std::int64_t>(90 + bytes_at_1 * std::pow(lambda, bytes_slope)),
                       drop_at_1 * std::pow(lambda, drop_slope)};
  };
}

TEST(LambdaSearch, EndsNearATargetSizeInThreeAttempts) {
  for (const double slope : {-0.3, -0.5, -0.9})
    for (const std::int64_t wanted : {700, 2000, 9000})
      for (const double first : {0.02, 0.1, 0.5}) {
        const Curve curve = power(1000, slope, 1, 1);
        // A first lambda within a factor of 20 of the right one, as a guess from the data is.
        const double right = std::pow(static_cast<double>(wanted - 90) / 1000, 1 / slope);
        if (std::fabs(std::log(right / first)) > std::log(20)) continue;
        const Found found = search({.bytes = wanted, .drop = {}}, curve, first, 4);
        ASSERT_TRUE(found.best);
        EXPECT_NEAR(static_cast<double>(found.best->bytes) / static_cast<double>(wanted), 1, 0.05)
            << "slope " << slope << ", wanted " << wanted << ", first " << first;
        EXPECT_LE(found.tries, 4);
      }
}

/// An attempt that continues one whose file was too large makes a smaller file at the same lambda
/// too.
TEST(LambdaSearch, GoesBelowALambdaThatWasTooLowWhereAttemptsContinueIt) {
  for (const double slope : {-0.4, -0.8, -1.2})
    for (const double shrinks : {0.8, 0.9, 0.97}) {
      LambdaSearch search({.bytes = 900, .drop = {}}, 0.8, 6);
      double from = 0;
      for (bool more = true; more;) {
        const double lambda = search.lambda();
        const double bytes = 880 * std::pow(lambda, slope) * (from > 0 ? shrinks : 1);
        const LambdaPoint point{
            .lambda = lambda, .bytes = static_cast<std::int64_t>(bytes), .from = from};
        more = search.tried(point);
        if (!search.keeps(point)) from = std::max(from, lambda);
      }
      const LambdaPoint best = search.points()[search.best().value()];
      EXPECT_LE(best.bytes, 900) << slope << " " << shrinks;
      EXPECT_GE(best.bytes, 855) << slope << " " << shrinks;
    }
}

TEST(LambdaSearch, StopsWhereTheSizeIsMet) {
  const Found found = search({.bytes = 1090, .drop = {}}, power(1000, -0.5, 1, 1), /*first=*/1, 6);
  EXPECT_EQ(found.tries, 1);
  EXPECT_EQ(found.best->bytes, 1090);
}

TEST(LambdaSearch, FindsTheSmallestFileThatKeepsTheDrop) {
  for (const double drop_slope : {0.7, 1.0, 2.0})
    for (const double allowed : {0.03, 0.3, 1.0, 3.0}) {
      const Curve curve = power(1000, -0.5, 1, drop_slope);
      const double right = std::pow(allowed, 1 / drop_slope);
      const LambdaPoint reference = curve(right / 30);
      const Found found = search({.bytes = {}, .drop = allowed}, curve, right / 3, 6, {reference});
      ASSERT_TRUE(found.best);
      EXPECT_LE(found.best->drop, allowed);
      EXPECT_LE(static_cast<double>(found.best->bytes),
                1.15 * static_cast<double>(curve(right).bytes))
          << "slope " << drop_slope << ", allowed " << allowed;
    }
}

TEST(LambdaSearch, ComesDownFromALambdaThatIsTooHigh) {
  const Curve curve = power(1000, -0.5, 1, 1);
  const Found found = search({.bytes = {}, .drop = 0.1}, curve, /*first=*/5, 6);
  ASSERT_TRUE(found.best);
  EXPECT_LE(found.best->drop, 0.1);
  EXPECT_GT(found.best->lambda, 0.1 / 3);
}

TEST(LambdaSearch, NothingThatKeepsTheDropIsNoBest) {
  const Found found = search(
      {.bytes = {}, .drop = 0.1},
      [](double lambda) {
        return LambdaPoint{lambda, 1000, 5};
      },
      1, 4);
  EXPECT_FALSE(found.best);
  EXPECT_EQ(found.tries, 4);
}

TEST(LambdaSearch, ADropOfNothingAndNoisyGainsMoveByStrides) {
  const Curve gains = [](double lambda) { return LambdaPoint{lambda, 1000, -0.2}; };
  LambdaSearch search({.bytes = {}, .drop = 0}, 1, 3);
  EXPECT_TRUE(search.tried(gains(1)));
  const double second = search.lambda();
  EXPECT_GT(second, 1.5);
  EXPECT_LE(second, LambdaSearch::kLargestMove);
  EXPECT_TRUE(search.tried({second, 900, 0.5}));
  EXPECT_GT(search.lambda(), 1) << "between what kept it";
  EXPECT_LT(search.lambda(), second) << "and what did not";
  EXPECT_FALSE(search.tried({search.lambda(), 950, 0.5}));
  EXPECT_EQ(search.best(), 0u);
}

/// A secant in log-log says nothing if the lower lambda has no drop.
TEST(LambdaSearch, ADropBesideAGainIsInterpolated) {
  LambdaSearch search({.bytes = {}, .drop = 0.03}, 0.54, 4);
  EXPECT_TRUE(search.tried({0.54, 119'000, 0.07}));
  EXPECT_TRUE(search.tried({0.225, 167'000, -0.004}));
  EXPECT_NEAR(std::log(search.lambda() / 0.225) / std::log(0.54 / 0.225), 0.034 / 0.074, 0.01);
}

/// Above some lambda the model collapses, and its file is still too large.
TEST(LambdaSearch, ComesBackFromLambdasThatCollapseTheModel) {
  for (const double edge : {0.3, 2.0, 20.0}) {
    const Curve fragile = [&](double lambda) {
      const bool collapsed = lambda >= edge;
      return LambdaPoint{lambda,
                         static_cast<std::int64_t>(collapsed ? 200 : 1000 / std::sqrt(lambda)), 0,
                         collapsed};
    };
    for (const std::int64_t wanted : {100, 210}) {
      const Found found = search({.bytes = wanted, .drop = {}}, fragile, 1, 6);
      ASSERT_TRUE(found.best) << "edge " << edge;
      EXPECT_FALSE(found.best->collapsed);
      EXPECT_LT(found.best->lambda, edge);
      EXPECT_GT(found.best->lambda, edge / 4);
    }
  }
}

TEST(LambdaSearch, WithEverythingCollapsedThereIsNoBest) {
  const Curve collapsed = [](double lambda) { return LambdaPoint{lambda, 90, 0, true}; };
  EXPECT_FALSE(search({.bytes = 100, .drop = {}}, collapsed, 1, 4).best);
}

TEST(LambdaSearch, FilesThatDoNotMoveEndTheSearch) {
  int tries = 0;
  const Found found = search(
      {.bytes = 500, .drop = {}},
      [&](double lambda) {
        ++tries;
        return LambdaPoint{lambda, 2000, 0};
      },
      1, 5);
  EXPECT_EQ(tries, 5);
  EXPECT_EQ(found.best->bytes, 2000) << "the nearest there is";
}

TEST(LambdaSearch, ADropThatIsNoNumberIsAboveEveryLimit) {
  const Curve diverges = [](double lambda) {
    return LambdaPoint{lambda, 1000, lambda > 0.3 ? std::nan("") : 0.1 * lambda};
  };
  const Found found = search({.bytes = {}, .drop = 0.1}, diverges, 2, 6);
  ASSERT_TRUE(found.best);
  EXPECT_LE(found.best->lambda, 0.3);
  const Curve nothing = [](double lambda) { return LambdaPoint{lambda, 1000, std::nan("")}; };
  EXPECT_FALSE(search({.bytes = {}, .drop = 0.1}, nothing, 2, 6).best);
}

/// On any monotone curve the best point is one that was tried and keeps the goal.
TEST(LambdaSearch, MonotoneCurvesAndPlateausGiveAPointThatKeepsTheDrop) {
  for (int n = 0; n < 200; ++n) {
    const double edge = std::pow(10, -2 + 0.02 * n), width = n % 2 == 0 ? 1 : 8;
    const Curve steps = [&](double lambda) {
      const double level = std::floor(std::log(lambda) * width) / width;
      return LambdaPoint{lambda, static_cast<std::int64_t>(1e6 * std::exp(-0.5 * level)),
                         lambda > edge ? 1 + lambda - edge : 0};
    };
    const LambdaPoint baseline = steps(edge / 10);
    const Found found = search({.bytes = {}, .drop = 0.5}, steps, edge * 3, 8, {baseline});
    ASSERT_TRUE(found.best);
    EXPECT_LE(found.best->lambda, edge);
    EXPECT_GE(found.best->lambda, edge / 10);
  }
}

}  // namespace
}  // namespace gbcompress
