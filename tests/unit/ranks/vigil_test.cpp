#include "ranks/liveness/vigil.h"

#include <gtest/gtest.h>

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

/// Rank 0's watch over a world of 3 with a timeout of 1 s and a beat of 100 ms.
struct Watch {
  Vigil::Clock::time_point now{};
  Vigil vigil{milliseconds{1000}, milliseconds{100}, now};

  Watch() {
    for (int r = 1; r < 3; ++r) vigil.watch(r, now);
  }
  /// Lets time pass; the ranks of `counts` beat with their number of collectives (-1: silence).
  std::optional<Failure> pass(milliseconds time, std::vector<int> counts) {
    for (milliseconds passed{0}; passed < time; passed += milliseconds{100}) {
      now += milliseconds{100};
      for (int r = 0; r < 3; ++r)
        if (counts[static_cast<std::size_t>(r)] >= 0)
          vigil.beat(r, static_cast<std::uint64_t>(counts[static_cast<std::size_t>(r)]),
                     Collective::kAllReduce, now);
      if (const auto failure = vigil.check(now)) return failure;
    }
    return std::nullopt;
  }
};

TEST(Vigil, HealthyRanksAreLeftAlone) {
  Watch watch;
  for (int step = 0; step < 50; ++step)
    EXPECT_EQ(watch.pass(milliseconds{900}, {step, step + 1, step}), std::nullopt);
  EXPECT_EQ(watch.pass(milliseconds{100'000}, {50, 50, 50}), std::nullopt);
}

TEST(Vigil, SilenceIsNamedAfterTheTimeout) {
  Watch watch;
  watch.pass(milliseconds{500}, {1, 1, 1});
  EXPECT_EQ(watch.pass(milliseconds{1000}, {1, -1, 1}), std::nullopt);
  const auto failure = watch.pass(milliseconds{200}, {1, -1, 1});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_NE(failure->cause.find("not been heard of for 1 s"), std::string::npos) << failure->cause;
}

TEST(Vigil, ARankThatNeverBeatCountsFromTheStart) {
  Watch watch;
  const auto failure = watch.pass(milliseconds{3000}, {0, 0, -1});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
}

TEST(Vigil, LatenessCountsFromTheFirstWhoWaits) {
  Watch watch;
  watch.pass(milliseconds{500}, {7, 7, 7});
  EXPECT_EQ(watch.pass(milliseconds{1000}, {8, 7, 7}), std::nullopt);
  EXPECT_EQ(watch.pass(milliseconds{1}, {9, 8, 8}), std::nullopt);  // in time, just
  EXPECT_EQ(watch.pass(milliseconds{900}, {9, 9, 8}), std::nullopt);
  const auto failure = watch.pass(milliseconds{300}, {9, 9, 8});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_NE(failure->cause.find("it has entered 8 collectives"), std::string::npos)
      << failure->cause;
  EXPECT_NE(failure->cause.find("number 9 (all_reduce)"), std::string::npos) << failure->cause;
}

TEST(Vigil, ARankThatIsSilentAndLateIsCalledSilent) {
  Watch watch;
  watch.pass(milliseconds{500}, {7, 7, 7});
  watch.pass(milliseconds{100}, {8, 7, 7});  // the others are ahead before it falls silent
  const auto failure = watch.pass(milliseconds{3000}, {8, 8, -1});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_NE(failure->cause.find("not been heard of"), std::string::npos) << failure->cause;
}

TEST(Vigil, Rank0ItselfCanBeLate) {
  Watch watch;
  const auto failure = watch.pass(milliseconds{3000}, {3, 4, 4});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 0);
}

TEST(Vigil, ARankThatMissesATransferIsNamedAndNotTheOneThatWaits) {
  // Rank 0 is ahead; rank 1 is late because it waits for rank 2, which computes.
  Watch watch;
  watch.pass(milliseconds{500}, {7, 7, 7});
  watch.vigil.wait(1, 2, 1, watch.now);
  EXPECT_EQ(watch.pass(milliseconds{900}, {8, 7, 7}), std::nullopt);
  watch.vigil.wait(1, 2, 1, watch.now);
  const auto failure = watch.pass(milliseconds{300}, {8, 7, 7});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_NE(failure->cause.find("transfer for which rank 1 has waited for 1 s"), std::string::npos)
      << failure->cause;
}

TEST(Vigil, ManyShortWaitsAreNoLongOne) {
  Watch watch;
  for (std::uint64_t n = 0; n < 50; ++n) {
    watch.vigil.wait(1, 2, n, watch.now);
    EXPECT_EQ(watch.pass(milliseconds{900}, {7, 7, 7}), std::nullopt);
  }
  watch.vigil.wait(1, -1, 50, watch.now);
  EXPECT_EQ(watch.pass(milliseconds{5000}, {7, 7, 7}), std::nullopt);
}

TEST(Vigil, TheEndOfAChainOfWaitsIsNamed) {
  Watch watch;
  watch.vigil.wait(0, 1, 1, watch.now);
  watch.vigil.wait(1, 2, 1, watch.now);
  const auto failure = watch.pass(milliseconds{1500}, {7, 7, 7});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  // Each waits for the other: one of them is named, and the search ends.
  Watch circle;
  circle.vigil.wait(0, 1, 1, circle.now);
  circle.vigil.wait(1, 0, 1, circle.now);
  EXPECT_TRUE(circle.pass(milliseconds{1500}, {7, 7, 7}));
}

TEST(Vigil, OwnStopIsHeldAgainstNobody) {
  Watch watch;
  watch.pass(milliseconds{500}, {1, 2, 2});
  watch.now += milliseconds{60'000};
  EXPECT_EQ(watch.vigil.check(watch.now), std::nullopt);
  EXPECT_EQ(watch.pass(milliseconds{500}, {1, -1, -1}), std::nullopt);
  EXPECT_TRUE(watch.pass(milliseconds{1000}, {1, -1, -1}));
}

}  // namespace
}  // namespace gbcompress
