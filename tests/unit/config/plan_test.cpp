// Which methods options ask for.
#include "gbcompress/plan.h"

#include <gtest/gtest.h>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Methods = std::vector<Method>;

/// Defaults of the command line, with a target size.
CompressOptions sized() {
  CompressOptions options = Settings().compress;
  options.target = {.ratio = 8.0};
  return options;
}

CompressOptions without_data(CompressOptions options) {
  options.train.loss = Loss::kWeights;
  return options;
}

TEST(Plan, WithoutDataWeightsAreQuantizedFromThemselves) {
  const CompressionPlan plan = plan_of(without_data(sized()), {});
  EXPECT_EQ(plan.methods, Methods{Method::kDataFree});
  EXPECT_FALSE(plan.needs_model);
  EXPECT_EQ(plan.method_text(), "data-free");
  EXPECT_EQ(plan.content_text(), "quantized weights");
}

TEST(Plan, StatisticsFromAFileCalibrateWithoutAModel) {
  const CompressionPlan plan = plan_of(without_data(sized()), {.statistics = true});
  EXPECT_EQ(plan.methods, Methods{Method::kCalibrated});
  EXPECT_FALSE(plan.needs_model);
}

TEST(Plan, ExactValuesTakeNoModel) {
  CompressOptions options = without_data(sized());
  options.bottleneck.mode = WeightMode::kExact;
  EXPECT_EQ(plan_of(options, {}).methods, Methods{Method::kExact});
  EXPECT_FALSE(plan_of(options, {}).needs_model);
  options.bottleneck.layers = {{.match = "*", .mode = WeightMode::kQuantized}};
  EXPECT_EQ(plan_of(options, {}).methods, Methods{Method::kDataFree}) << "a rule names integers";
}

TEST(Plan, ATargetSizeWithDataTriesTheCheapestFirst) {
  CompressOptions options = sized();
  const RequestFacts data{.data = true};
  EXPECT_EQ(plan_of(options, data).methods,
            (Methods{Method::kDataFree, Method::kCalibrated, Method::kRateSearch}));
  EXPECT_TRUE(plan_of(options, data).compares_files);
  EXPECT_EQ(plan_of(options, data).method_text(),
            "data-free, calibrated or trained, the first without a quality drop");
  options.effort = Effort::kFast;
  EXPECT_EQ(plan_of(options, data).methods, (Methods{Method::kDataFree, Method::kCalibrated}));
  EXPECT_EQ(plan_of(options, data).method_text(),
            "data-free, or calibrated if that has a measurable quality drop");
  options.train.rate.calibration = 0;
  EXPECT_EQ(plan_of(options, data).methods, Methods{Method::kDataFree});
  EXPECT_TRUE(plan_of(options, data).compares_files) << "the report tells its quality drop";
  options.effort = Effort::kMax;
  EXPECT_EQ(plan_of(options, data).methods, Methods{Method::kRateSearch});
  EXPECT_FALSE(plan_of(options, data).compares_files);
}

TEST(Plan, ARunThatIsResumedTrains) {
  EXPECT_EQ(plan_of(sized(), {.data = true, .resumes = true}).methods,
            Methods{Method::kRateSearch});
}

TEST(Plan, DataWithoutATargetSearchTheSmallestFile) {
  CompressOptions options = sized();
  options.target = {.no_loss = true};
  EXPECT_EQ(plan_of(options, {.data = true}).methods, Methods{Method::kRateSearch});
  options.target = {};
  EXPECT_EQ(plan_of(options, {.data = true}).methods, Methods{Method::kFixedRate})
      << "a given lambda";
}

TEST(Plan, ADropWithoutEpochsIsCalibrated) {
  CompressOptions options = sized();
  options.target = {.max_drop = 1.0};
  options.train.epochs = 0;
  EXPECT_EQ(plan_of(options, {.data = true}).methods, Methods{Method::kCalibrated});
  options.train.rate.calibration = 0;
  EXPECT_EQ(plan_of(options, {.data = true}).methods, Methods{Method::kDataFree});
}

TEST(Plan, GeneratedWeightsTakeAModel) {
  CompressOptions options = without_data(sized());
  options.bottleneck.mode = WeightMode::kGenerated;
  const CompressionPlan plan = plan_of(options, {});
  EXPECT_EQ(plan.methods, Methods{Method::kGnetSize});
  EXPECT_TRUE(plan.needs_model);
  EXPECT_EQ(plan.method_text(), "generated");
  options.bottleneck.mode = WeightMode::kQuantized;
  LayerRule rule;
  rule.match = "*";
  rule.mode = WeightMode::kGenerated;
  options.bottleneck.layers = {rule};
  EXPECT_TRUE(plan_of(options, {}).needs_model) << "a rule names g-nets";
}

TEST(Plan, AStrategyTakesAModel) {
  CompressOptions options = without_data(sized());
  options.train.strategy.name = "dtp";
  EXPECT_TRUE(plan_of(options, {}).needs_model) << "where it is refused without data";
}

std::string refused(const CompressionPlan& plan, const RequestFacts& facts) {
  try {
    check_executable(plan, facts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kUsage);
    return error.what();
  }
  return "";
}

TEST(Plan, EveryPlanOfARequestCanBeExecuted) {
  for (const bool data : {false, true})
    for (const bool statistics : {false, true})
      for (const WeightMode mode :
           {WeightMode::kQuantized, WeightMode::kGenerated, WeightMode::kExact}) {
        CompressOptions options = data ? sized() : without_data(sized());
        options.bottleneck.mode = mode;
        const RequestFacts facts{.data = data, .statistics = statistics};
        EXPECT_EQ(refused(plan_of(options, facts), facts), "");
      }
}

TEST(Plan, AMethodWithoutItsInputIsNamed) {
  CompressionPlan plan;
  EXPECT_EQ(refused(plan, {}), "the plan has no method; give a target or data");
  plan.methods = {Method::kCalibrated};
  EXPECT_EQ(refused(plan, {}),
            "the method calibrated of the plan cannot be executed: it needs data, or a file of "
            "second-order statistics");
  EXPECT_EQ(refused(plan, {.statistics = true}), "");
  plan.methods = {Method::kFixedRate};
  EXPECT_EQ(refused(plan, {.statistics = true}),
            "the method trained of the plan cannot be executed: it needs data to train on");
  plan.methods = {Method::kDataFree, Method::kRateSearch};
  EXPECT_NE(refused(plan, {.data = true}).find("no comparison"), std::string::npos);
  plan.compares_files = true;
  EXPECT_EQ(refused(plan, {.data = true}), "");
  EXPECT_NE(refused(plan, {}).find("held-out split"), std::string::npos);
}

}  // namespace
}  // namespace gbcompress
