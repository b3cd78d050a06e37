#include "search/size_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace gbcompress {
namespace {

/// Bytes of a million numbers at steps of 2^x deviations: the entropy of rounded Laplace numbers.
std::int64_t laplace_bytes(double x) {
  const double b = std::exp2(-x) / std::sqrt(2.0);  // scale over step
  const double zero = 1 - std::exp(-0.5 / b), p = 1 - std::exp(-1 / b);
  const auto h = [](double q) {
    return q <= 0 || q >= 1 ? 0 : -q * std::log2(q) - (1 - q) * std::log2(1 - q);
  };
  const double bits = h(zero) + (1 - zero) * (1 + h(p) / p);
  return 500 + static_cast<std::int64_t>(bits * 1e6 / 8);
}

struct Result {
  double x;
  std::int64_t bytes;
  int tries = 0;
};
Result run(std::int64_t wanted, double start) {
  SizeSearch search(wanted, 1'000'000, -18, 4);
  Result result{};
  while (const auto x = search.next(start)) {
    ++result.tries;
    search.tried(*x, laplace_bytes(*x));
  }
  result.x = search.best().value_or(99);
  result.bytes = search.best() ? laplace_bytes(result.x) : 0;
  return result;
}

TEST(SizeSearch, EndsJustBelowTheSizeInFewTries) {
  for (const std::int64_t wanted : {30'000, 100'000, 400'000, 900'000, 2'000'000})
    for (const double start : {-6.0, -2.0, 1.0}) {
      const Result result = run(wanted, start);
      EXPECT_LE(result.bytes, wanted);
      EXPECT_GE(result.bytes, wanted * 97 / 100) << wanted << " from " << start;
      EXPECT_LE(result.tries, 8) << wanted << " from " << start;
    }
}

TEST(SizeSearch, GivesUpWhereTheCoarsestStepsAreTooLarge) {
  const Result result = run(400, 0);
  EXPECT_EQ(result.x, 99);
  EXPECT_LE(result.tries, 12);
}

TEST(SizeSearch, TakesTheFinestStepsWhereEverythingFits) {
  const Result result = run(50'000'000, 0);
  EXPECT_EQ(result.x, -18);
  EXPECT_LE(result.tries, 4);
}

TEST(SizeSearch, AStartThatIsNoNumberIsTheMiddle) {
  SizeSearch search(100, 1000, -18, 4);
  EXPECT_EQ(search.next(std::nan("")), -7);
}

/// Sizes that do not move, or move by jumps: at most twelve tries, and the result was tried and
/// fits.
TEST(SizeSearch, PlateausEndAndTheResultFits) {
  for (const double jump : {0.5, 2.0, 100.0})
    for (const std::int64_t wanted : {10'000, 100'000, 600'000}) {
      SizeSearch search(wanted, 1'000'000, -18, 4);
      const auto bytes = [&](double x) { return laplace_bytes(std::ceil(x / jump) * jump); };
      int tries = 0;
      std::vector<double> tried;
      while (const auto x = search.next(-3)) {
        ASSERT_LE(++tries, 12);
        ASSERT_GE(*x, -18);
        ASSERT_LE(*x, 4);
        search.tried(*x, bytes(*x));
        tried.push_back(*x);
      }
      if (!search.best()) continue;
      EXPECT_LE(bytes(*search.best()), wanted);
      EXPECT_NE(std::find(tried.begin(), tried.end(), *search.best()), tried.end());
    }
}

TEST(SizeSearch, FewTriesEndWithTheBestOfThem) {
  for (const double start : {-12.0, -3.0, 2.0}) {
    SizeSearch search(100'000, 1'000'000, -18, 4, {.tries = 4, .enough = 0.985});
    std::vector<double> fitting;
    int tries = 0;
    while (const auto x = search.next(start)) {
      ++tries;
      search.tried(*x, laplace_bytes(*x));
      EXPECT_EQ(search.last(), x);
      if (laplace_bytes(*x) <= 100'000) fitting.push_back(*x);
    }
    EXPECT_LE(tries, 4) << start;
    ASSERT_FALSE(fitting.empty()) << start;
    EXPECT_EQ(search.best(), *std::min_element(fitting.begin(), fitting.end())) << start;
  }
}

}  // namespace
}  // namespace gbcompress
