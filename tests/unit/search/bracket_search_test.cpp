// Properties of bracket searches on monotone conditions, plateaus and NaN.
#include "search/bracket_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "search/drop_search.h"

namespace gbcompress {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Walk {
  std::optional<double> holds;
  std::vector<double> tried;
};
/// Runs a search to its end. Every value must lie strictly inside of the bracket of its time.
Walk run(
    BracketSearch search, const std::function<bool(double)>& condition,
    const std::function<std::optional<double>()>& guess = [] { return std::nullopt; }) {
  Walk walk;
  while (const auto x = search.next(guess())) {
    if (search.holds() && search.fails()) {
      EXPECT_GT(*x, std::min(*search.holds(), *search.fails()));
      EXPECT_LT(*x, std::max(*search.holds(), *search.fails()));
    }
    search.tried(*x, condition(*x));
    walk.tried.push_back(*x);
    EXPECT_LT(walk.tried.size(), 5000u);
    if (walk.tried.size() >= 5000) break;
  }
  EXPECT_EQ(static_cast<std::size_t>(search.tries()), walk.tried.size());
  walk.holds = search.holds();
  return walk;
}

BracketState between(double holds, double fails) { return {.holds = holds, .fails = fails}; }

TEST(BracketSearch, ConvergesToTheEdgeOfAnyMonotoneConditionFromEitherSide) {
  std::mt19937_64 random(1);
  for (int n = 0; n < 300; ++n) {
    const double edge = std::uniform_real_distribution(1e-3, 999.0)(random);
    for (const Scale scale : {Scale::kLinear, Scale::kLog})
      for (const bool below : {true, false}) {
        const double resolution = scale == Scale::kLog ? 1 + 1e-9 : 1e-9;
        const auto holds = [&](double x) { return below ? x <= edge : x >= edge; };
        const BracketState state = below ? between(1e-4, 1e3) : between(1e3, 1e-4);
        const Walk walk = run({{.scale = scale, .resolution = resolution}, state}, holds);
        ASSERT_TRUE(walk.holds);
        EXPECT_TRUE(holds(*walk.holds));
        EXPECT_NEAR(*walk.holds, edge, 2e-9 * std::max(edge, 1.0)) << static_cast<int>(scale);
      }
  }
}

TEST(BracketSearch, FindsTheLastIntegerInLogarithmicallyManyTries) {
  for (int edge = -70; edge <= 70; ++edge) {
    int calls = 0;
    const auto holds = [&](int k) {
      ++calls;
      EXPECT_GT(k, -64);
      EXPECT_LE(k, 64);
      return k <= edge;
    };
    EXPECT_EQ(last_that_holds(-64, 64, holds), std::clamp(edge, -64, 64));
    EXPECT_LE(calls, 8);
  }
  EXPECT_EQ(last_that_holds(5, 5, [](int) { return true; }), 5) << "nothing to try";
}

TEST(BracketSearch, GuessesAnywhereAreMovedInsideAndStillConverge) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> anywhere(-300, 300);
  for (int edge = -100; edge < 100; edge += 7) {
    const Walk walk = run(
        {{.scale = Scale::kInteger}, between(-100, 101)}, [&](double x) { return x <= edge; },
        [&]() -> std::optional<double> { return anywhere(random); });
    EXPECT_EQ(walk.holds, static_cast<double>(edge));
  }
  const Walk exact = run(
      {{.scale = Scale::kInteger}, between(0, 1000)}, [](double x) { return x <= 617; },
      []() -> std::optional<double> { return 617; });
  EXPECT_EQ(exact.tried, (std::vector<double>{617, 618}));
}

TEST(BracketSearch, KeepsAwayFromTheSidesByHalfOfTheResolution) {
  BracketSearch search({.resolution = 0.5}, between(0, 10));
  EXPECT_EQ(search.next(-7.0), 0.25);
  EXPECT_EQ(search.next(70.0), 9.75);
  EXPECT_EQ(search.next(kNan), 5) << "a guess that is no number is none";
}

TEST(BracketSearch, OnPlateausAndJumpsTheResultIsAValueThatHeld) {
  const auto plateau = [](double x) { return std::floor(x / 10) * 10 <= 40; };
  const Walk walk = run({{.resolution = 1e-6}, between(0, 100)}, plateau);
  EXPECT_NEAR(*walk.holds, 50, 1e-5);
  std::mt19937_64 random(3);
  for (int n = 0; n < 100; ++n) {  // no order at all
    std::vector<std::pair<double, bool>> seen;
    const Walk noisy = run({{.cuts = 20}, between(-1, 1)}, [&](double x) {
      seen.emplace_back(x, random() % 2 == 0);
      return seen.back().second;
    });
    bool held = *noisy.holds == -1;
    for (const auto& [x, holds] : seen) held = held || (holds && x == *noisy.holds);
    EXPECT_TRUE(held);
    EXPECT_EQ(noisy.tried.size(), 20u);
  }
}

TEST(BracketSearch, ConditionsOnNanDoNotHold) {
  const Walk walk =
      run({{.scale = Scale::kLog, .cuts = 40, .stride = 2, .strides = 3}, {.first = 1}},
          [](double) { return kNan <= 5; });
  EXPECT_FALSE(walk.holds);
  EXPECT_EQ(walk.tried, (std::vector<double>{1, 2, 4, 8}));
}

TEST(BracketSearch, StridesUntilAValueHoldsThenCutsBehindIt) {
  const BracketState state{.first = 1, .fails = 0};
  const Walk walk =
      run({{.cuts = 3, .stride = 4, .strides = 6}, state}, [](double x) { return x >= 10; });
  EXPECT_EQ(walk.tried, (std::vector<double>{1, 4, 16, 10, 7, 8.5}));
  EXPECT_EQ(walk.holds, 10);
  const Walk at_once = run({{.cuts = 3, .strides = 6}, {.first = 5}}, [](double) { return true; });
  EXPECT_EQ(at_once.tried, std::vector<double>{5}) << "no bracket without a value that fails";
  const Walk limited =
      run({{.stride = 2, .strides = 60, .limit = 30}, {.first = 1}}, [](double) { return false; });
  EXPECT_EQ(limited.tried, (std::vector<double>{1, 2, 4, 8, 16, 32}));
}

TEST(BracketSearch, NeighboringNumbersEndTheSearch) {
  const double holds = 1, fails = std::nextafter(1.0, 2.0);
  EXPECT_FALSE(BracketSearch({}, between(holds, fails)).next());
}

TEST(BracketSearch, AStateContinuesAsIfItHadNotStopped) {
  for (int stop = 0; stop < 12; ++stop) {
    const BracketRule rule{.scale = Scale::kLog, .cuts = 6, .stride = 0.5, .strides = 5};
    const auto holds = [](double x) { return x <= 3.3; };
    BracketSearch first(rule, {.first = 40});
    for (int n = 0; n < stop; ++n)
      if (const auto x = first.next()) first.tried(*x, holds(*x));
    const Walk whole = run({rule, {.first = 40}}, holds);
    const Walk rest = run({rule, first.state()}, holds);
    EXPECT_EQ(rest.holds, whole.holds);
    EXPECT_EQ(rest.tried.size() + static_cast<std::size_t>(first.tries()), whole.tried.size());
  }
}

TEST(DropSearch, HalvesThenCutsIfThatIsCheap) {
  const auto search = [](bool cheap, double keeps_below) {
    const Walk walk = run(drop_search(cheap), [&](double ratio) { return ratio <= keeps_below; });
    return std::pair(walk.holds.value_or(0), walk.tried.size());
  };
  EXPECT_EQ(search(false, 13), std::pair(10.0, std::size_t{3}));
  EXPECT_EQ(search(false, 1), std::pair(0.0, std::size_t{5}));
  EXPECT_EQ(search(true, 1), std::pair(0.0, std::size_t{5}));
  EXPECT_EQ(search(true, 100), std::pair(40.0, std::size_t{1}));
  const auto [best, tries] = search(true, 13);
  EXPECT_LE(best, 13);
  EXPECT_GT(best, 13 / std::exp2(1.0 / 16));
  EXPECT_EQ(tries, 7u);
}

}  // namespace
}  // namespace gbcompress
