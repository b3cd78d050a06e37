#include "gbcompress/bench.h"

#include <gtest/gtest.h>

#include "gbcompress/error.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

constexpr auto kOwner = Placement::kOwner;
constexpr auto kReplicated = Placement::kReplicated;

/// One bank of 16 tiles of 100x100, hidden 32: 16 * 513 parameters; and 500 plain ones.
ModelPlan plan_of() {
  NamedParameter layer, bias;
  layer.info.name = "layer";
  layer.info.local_name = "weight";
  layer.info.module_type = "Linear";
  layer.info.shape = {400, 400};
  layer.info.std = 1;
  bias.info.name = "bias";
  bias.info.shape = {500};
  return plan_model({layer, bias}, test_registry());
}

/// Round numbers: 160,000 weights forward in 0.16 ms, backward in 0.32 ms; copying costs nothing.
RankRates rates_of() { return {{{1e9, 0.5e9, 1e9}}, 1e30}; }

double seconds(const ModelPlan& plan, Placement placement, const ScalingCase& scaling) {
  const Placement placements[] = {placement};
  return predict_step(plan, rates_of(), placements, scaling).seconds;
}

TEST(Scaling, OneRankComputesEverythingAndSendsNothing) {
  const ModelPlan plan = plan_of();
  const double parameters = (16 * 513 + 500) / 1e9;
  for (const Placement placement : {kOwner, kReplicated}) {
    const Placement placements[] = {placement};
    const ScalingCase alone{1, {1e6, 1}, 0.25};
    const StepPrediction step = predict_step(plan, rates_of(), placements, alone);
    EXPECT_NEAR(step.seconds, 0.25 + 0.16e-3 + 0.32e-3 + parameters, 1e-12);
    EXPECT_NEAR(step.compute_seconds, 0.48e-3 + parameters, 1e-12);
    EXPECT_EQ(step.link_seconds, 0);
    EXPECT_EQ(step.wait_seconds, 0);
    EXPECT_EQ(step.all_bytes, 0);
  }
}

TEST(Scaling, ReplicatedByHand) {
  const ModelPlan plan = plan_of();
  // Slow link: the gradients of plain parameters (2000 bytes) go first, while g-nets are computed.
  const ScalingCase scaling{4, {1e6, 1e-5}, 0};
  const double plain = 6 * (1e-5 + 500 / 1e6);
  const double gnets = 6 * (1e-5 + 16 * 513 / 1e6);
  const double adamw = (16 * 513 + 500) / 1e9;
  EXPECT_NEAR(seconds(plan, kReplicated, scaling), 0.16e-3 + plain + gnets + adamw, 1e-9);
  // Fast link: only computing is left.
  EXPECT_NEAR(seconds(plan, kReplicated, {4, {1e15, 0}, 0}), 0.48e-3 + adamw, 1e-9);
}

TEST(Scaling, OwnerByHand) {
  const ModelPlan plan = plan_of();
  // Four tiles a rank. Fast link: a quarter of the computing, all of the plain parameters.
  EXPECT_NEAR(seconds(plan, kOwner, {4, {1e15, 0}, 0}), 0.12e-3 + (4 * 513 + 500) / 1e9, 1e-9);
  // Slow link, two ranks: half of the 640,000 bytes of gradients goes to the other one, half of the
  // weights comes back, and the plain parameters go between.
  const ScalingCase scaling{2, {1e6, 0}, 0};
  const double plain = 2 * 1000 / 1e6;
  EXPECT_NEAR(seconds(plan, kOwner, scaling),
              0.08e-3 + 0.32 + plain + 0.32 + 0.16e-3 + (8 * 513 + 500) / 1e9, 1e-9);
}

TEST(Scaling, BytesAreThoseOfThePlan) {
  const ModelPlan plan = plan_of();
  const Placement placements[] = {kOwner};
  const StepPrediction step = predict_step(plan, rates_of(), placements, {4, {1e9, 0}, 0});
  EXPECT_EQ(step.all_bytes, 2 * 4 * 3 * (160'000 + 500));
  EXPECT_GE(4 * step.busiest_bytes, step.all_bytes);
}

TEST(Scaling, ChoosesAsAutoDoes) {
  const ModelPlan plan = plan_of();
  EXPECT_EQ(choose_placements(plan, rates_of(), {8, {1e6, 0}, 0}),
            std::vector<Placement>{kReplicated});
  EXPECT_EQ(choose_placements(plan, rates_of(), {8, {1e12, 0}, 0}), std::vector<Placement>{kOwner});
}

TEST(Scaling, MeasuresEveryBank) {
  const ModelPlan plan = plan_of();
  const RankRates rates = measure_rank_rates(plan, 0.01);
  ASSERT_EQ(rates.banks.size(), 1u);
  EXPECT_GT(rates.banks[0].forward_weights_per_second, 1e5);
  EXPECT_GT(rates.copy_bytes_per_second, 1e6);
}

TEST(Scaling, RefusesWhatCannotBe) {
  const ModelPlan plan = plan_of();
  const Placement placements[] = {kOwner};
  const auto refused = [&](const ScalingCase& scaling, std::span<const Placement> chosen) {
    try {
      predict_step(plan, rates_of(), chosen, scaling);
    } catch (const Error& error) {
      return error.code() == Errc::kUsage;
    }
    return false;
  };
  EXPECT_TRUE(refused({0, {1e9, 0}, 0}, placements));
  EXPECT_TRUE(refused({2, {0, 0}, 0}, placements));
  EXPECT_TRUE(refused({2, {1e9, -1}, 0}, placements));
  EXPECT_TRUE(refused({2, {1e9, 0}, -1}, placements));
  EXPECT_TRUE(refused({2, {1e9, 0}, 0}, {}));
}

}  // namespace
}  // namespace gbcompress
