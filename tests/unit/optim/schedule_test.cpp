#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress {
namespace {

TEST(Schedule, ConstantIsOne) {
  EXPECT_EQ(schedule_factor(Schedule::kConstant, 0, 5), 1);
  EXPECT_EQ(schedule_factor(Schedule::kConstant, 4, 5), 1);
}

TEST(Schedule, CosineWarmsUpThenFalls) {
  auto at = [](int step) { return schedule_factor(Schedule::kCosine, step, 100); };
  EXPECT_DOUBLE_EQ(at(0), 0.1);
  EXPECT_DOUBLE_EQ(at(4), 0.5);
  EXPECT_DOUBLE_EQ(at(9), 1);
  EXPECT_DOUBLE_EQ(at(10), 1);
  EXPECT_NEAR(at(55), 0.5, 1e-12);      // half way down
  EXPECT_NEAR(at(40), 0.75, 1e-12);     // cos(60 degrees) = 1/2
  EXPECT_NEAR(at(99), 3.046e-4, 1e-7);  // (1 - cos(pi / 90)) / 2
  for (int i = 10; i < 99; ++i) EXPECT_GT(at(i), at(i + 1));
}

TEST(Schedule, OneCycleRisesAndFalls) {
  auto at = [](int step) { return schedule_factor(Schedule::kOneCycle, step, 1000); };
  EXPECT_NEAR(at(0), 0.04, 1e-12);
  EXPECT_NEAR(at(33), 0.28, 1e-12);  // a third of the way up: 0.04 + 0.96 / 4
  EXPECT_NEAR(at(99), 1, 1e-12);
  EXPECT_NEAR(at(399), 0.75, 1e-5);  // a third of the way down
  EXPECT_NEAR(at(999), 4e-6, 1e-12);
  for (int i = 0; i < 999; ++i) EXPECT_TRUE(i < 99 ? at(i) < at(i + 1) : at(i) > at(i + 1)) << i;
}

TEST(Schedule, ShortRunsStayInRange) {
  for (Schedule s : {Schedule::kCosine, Schedule::kOneCycle})
    for (int total = 1; total < 40; ++total)
      for (int step = 0; step < total; ++step) {
        EXPECT_GT(schedule_factor(s, step, total), 0) << total << " " << step;
        EXPECT_LE(schedule_factor(s, step, total), 1) << total << " " << step;
      }
  EXPECT_EQ(schedule_factor(Schedule::kOneCycle, 0, 1), 1);
  EXPECT_EQ(schedule_factor(Schedule::kCosine, 0, 1), 1);
}

TEST(Schedule, StepsReduceTheRateAsPyTorch) {
  // torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.1), 4 steps an epoch.
  const EpochSchedule epochs{.steps = 4, .epochs = 3, .factor = 0.1};
  for (int step = 0; step < 40; ++step)
    EXPECT_DOUBLE_EQ(schedule_factor(Schedule::kStep, step, 40, epochs),
                     std::pow(0.1, step / 4 / 3))
        << step;
}

TEST(Schedule, EpochCosineIsConstantInAnEpochAndRisesAgain) {
  // CosineAnnealingLR(T_max=85, eta_min=1e-5) on a rate of 0.08; 90 epochs of 2 steps.
  const EpochSchedule epochs{.steps = 2, .epochs = 85, .factor = 1e-5 / 0.08};
  const auto rate = [&](int epoch) {
    return 0.08 * schedule_factor(Schedule::kEpochCosine, 2 * epoch, 180, epochs);
  };
  EXPECT_DOUBLE_EQ(rate(0), 0.08);
  EXPECT_NEAR(rate(85), 1e-5, 1e-12);
  EXPECT_NEAR(rate(40), 1e-5 + (0.08 - 1e-5) * (1 + std::cos(std::numbers::pi * 40 / 85)) / 2,
              1e-12);
  EXPECT_NEAR(rate(89), 4.47e-4, 1e-5);
  EXPECT_EQ(schedule_factor(Schedule::kEpochCosine, 6, 180, epochs),
            schedule_factor(Schedule::kEpochCosine, 7, 180, epochs));
}

TEST(Schedule, EpochsOutOfRangeAreRefused) {
  for (const EpochSchedule& wrong :
       {EpochSchedule{.steps = 0}, EpochSchedule{.epochs = 0}, EpochSchedule{.factor = -0.1},
        EpochSchedule{.factor = 1.5}, EpochSchedule{.factor = std::nan("")}})
    EXPECT_THROW(schedule_factor(Schedule::kStep, 0, 5, wrong), Error);
}

TEST(Schedule, StepsOutsideAreRefused) {
  for (auto [step, total] : {std::pair{-1, 5}, {5, 5}, {0, 0}})
    EXPECT_THROW(schedule_factor(Schedule::kConstant, step, total), Error) << step;
}

}  // namespace
}  // namespace gbcompress
