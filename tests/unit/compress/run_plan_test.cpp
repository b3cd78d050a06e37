// The methods of a plan, and each method alone, on runs of which everything is known.
#include "compress/run_plan.h"

#include <gtest/gtest.h>

#include "compress/methods/method.h"
#include "fake_run.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

CompressionPlan plan_for(std::vector<Method> methods, std::int64_t bytes) {
  CompressionPlan plan;
  plan.compares_files = methods.size() > 1;
  plan.methods = std::move(methods);
  plan.max_bytes = bytes;
  plan.input_bytes = 100'000;
  return plan;
}

CompressionPlan drop_plan(Method method, double drop) {
  CompressionPlan plan = plan_for({method}, 0);
  plan.max_drop = drop;
  return plan;
}

const std::vector<Method> kAll = {Method::kDataFree, Method::kCalibrated, Method::kRateSearch};

TEST(RunPlan, TheFirstMethodThatSufficesMakesTheFile) {
  FakeRun run;
  const PlanResult found = run_plan(plan_for(kAll, 100), run);
  EXPECT_EQ(found.method, Method::kDataFree);
  EXPECT_EQ(run.begun, std::vector{Method::kDataFree});
  EXPECT_EQ(found.made.file.size(), 100u);
}

TEST(RunPlan, AMeasurableDropLeadsToCalibration) {
  FakeRun run;
  run.data_free_drop = 0.2;
  const PlanResult found = run_plan(plan_for(kAll, 100), run);
  EXPECT_EQ(found.method, Method::kCalibrated);
  EXPECT_EQ(run.begun, (std::vector{Method::kDataFree, Method::kCalibrated}));
  EXPECT_EQ(run.sizes, std::vector<std::int64_t>{100}) << "one attempt of the target size";
  EXPECT_NE(found.reason.find("the data-free file: drop 0.2"), std::string::npos) << found.reason;
}

TEST(RunPlan, AFileAboveTheTargetDoesNotSuffice) {
  FakeRun run;
  run.data_free_bytes = 101;
  const PlanResult found = run_plan(plan_for(kAll, 100), run);
  EXPECT_EQ(found.method, Method::kCalibrated);
  EXPECT_NE(found.reason.find("101 bytes, above the target"), std::string::npos) << found.reason;
}

TEST(RunPlan, ADropThatIsNoNumberIsMeasurable) {
  FakeRun run;
  run.data_free_drop = std::nan("");
  EXPECT_EQ(run_plan(plan_for(kAll, 100), run).method, Method::kCalibrated);
}

TEST(RunPlan, TrainsIfCalibrationLosesQuality) {
  FakeRun run;
  run.data_free_drop = 1;
  run.drop_at = [](double) { return 1.0; };
  const PlanResult found =
      run_plan(plan_for({Method::kDataFree, Method::kCalibrated, Method::kFixedRate}, 100), run);
  EXPECT_EQ(found.method, Method::kFixedRate);
  EXPECT_NE(found.reason.find("the calibrated file: drop 1"), std::string::npos) << found.reason;
  EXPECT_NE(run.lines.at(0).find("training: "), std::string::npos);
}

TEST(RunPlan, WithoutTimeToTrainTheUntrainedFileIsTaken) {
  FakeRun run;
  run.data_free_drop = 1;
  run.drop_at = [](double) { return 1.0; };
  run.trains_in_time = false;
  const PlanResult found = run_plan(plan_for(kAll, 100), run);
  EXPECT_EQ(found.method, Method::kCalibrated);
  EXPECT_NE(found.reason.find("no time is left to train"), std::string::npos) << found.reason;
}

TEST(RunPlan, WithoutTimeTheDataFreeFileIsTaken) {
  FakeRun run;
  run.data_free_drop = 1;
  run.time_left = 0;
  const PlanResult found = run_plan(plan_for(kAll, 100), run);
  EXPECT_EQ(found.method, Method::kDataFree);
  EXPECT_EQ(run.begun, std::vector{Method::kDataFree});
  EXPECT_NE(found.reason.find("no time is left to calibrate"), std::string::npos) << found.reason;
}

TEST(RunPlan, ACollapsedModelIsGivenUpForTheSmallestThatIsNotWhereNothingIsTrained) {
  FakeRun run;
  run.data_free_drop = 1;
  run.drop_at = [](double) { return 1.0; };
  run.kept_at = [](double size) { return size < 150 ? 0.1 : 0.9; };
  CompressionPlan plan = plan_for({Method::kDataFree, Method::kCalibrated}, 100);
  plan.effort = Effort::kFast;
  const PlanResult found = run_plan(plan, run);
  EXPECT_EQ(found.method, Method::kCalibrated);
  EXPECT_FALSE(found.made.collapsed());
  EXPECT_GE(found.made.file.size(), 150u);
  EXPECT_LE(found.made.file.size(), 170u) << "the bracket is cut";
  EXPECT_NE(found.made.note, "");
  EXPECT_NE(found.reason.find("effort fast never trains"), std::string::npos) << found.reason;
}

TEST(RunPlan, OneMethodIsNotCompared) {
  FakeRun run;
  run.data_free_drop = 9;
  const PlanResult found = run_plan(plan_for({Method::kDataFree}, 100), run);
  EXPECT_EQ(found.method, Method::kDataFree);
  EXPECT_EQ(found.reason, "");
}

TEST(Methods, EveryOneMakesAFileOfTheSize) {
  for (const Method method : {Method::kExact, Method::kDataFree, Method::kCalibrated,
                              Method::kFixedRate, Method::kRateSearch, Method::kGnetSize}) {
    FakeRun run;
    const Candidate made = make_method(method)->run(plan_for({method}, 400), run);
    EXPECT_FALSE(made.file.empty()) << method_name(method);
    EXPECT_LE(made.file.size(), 400u) << method_name(method);
    EXPECT_TRUE(made.target_met) << method_name(method);
  }
}

TEST(Methods, NothingThatIsNotCollapsedIsANote) {
  FakeRun run;
  run.kept_at = [](double) { return 0.1; };
  const Candidate made =
      make_method(Method::kCalibrated)->run(plan_for({Method::kCalibrated}, 100), run);
  EXPECT_FALSE(made.target_met);
  EXPECT_NE(made.note.find("every model found is collapsed"), std::string::npos) << made.note;
}

TEST(Methods, ADropIsMetByTheLargestRatioTriedThatKeepsIt) {
  for (const Method method : {Method::kDataFree, Method::kCalibrated, Method::kGnetSize}) {
    FakeRun run;
    run.drop_at = [](double size) { return size < 4000 ? 2.0 : 0.5; };
    const Candidate made = make_method(method)->run(drop_plan(method, 1), run);
    EXPECT_TRUE(made.target_met) << method_name(method);
    EXPECT_GE(made.file.size(), 4000u) << method_name(method);
    EXPECT_EQ(made.file.size(), static_cast<std::size_t>(run.sizes.back()));
    if (method != Method::kGnetSize) {
      EXPECT_LE(made.file.size(), 4200u) << "untrained attempts are cheap";
    }
  }
}

TEST(Methods, ADropThatNoSizeKeepsIsANote) {
  FakeRun run;
  run.drop_at = [](double) { return 3.0; };
  const Candidate made = make_method(Method::kGnetSize)->run(drop_plan(Method::kGnetSize, 1), run);
  EXPECT_FALSE(made.target_met);
  EXPECT_NE(made.note.find("the largest quality drop allowed is 1"), std::string::npos)
      << made.note;
}

TEST(Methods, AResumedSearchOverSizesSkipsWhatIsBehindIt) {
  FakeRun run;
  run.done_before = 2;
  run.drop_at = [](double) { return 0.5; };
  make_method(Method::kGnetSize)->run(drop_plan(Method::kGnetSize, 1), run);
  ASSERT_EQ(run.sizes.size(), 1u);
  EXPECT_EQ(run.attempt_index, 2);
  EXPECT_EQ(run.sizes[0], 10'000) << "ratio 40 halved twice";
}

TEST(RunPlan, APlanWithoutMethodsIsRefusedBeforeAnythingBegins) {
  FakeRun run;
  EXPECT_THROW(run_plan(plan_for({}, 100), run), Error);
  EXPECT_TRUE(run.begun.empty());
}

}  // namespace
}  // namespace gbcompress
