// The search for lambda on runs of which everything is known: nothing is trained.
#include "compress/methods/rate_search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fake_run.h"
#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

TEST(RateSearch, MeetsASizeFromBelow) {
  FakeRun run;
  const RateSearchResult found =
      RateSearch(run, {.bytes = 400, .first_lambda = 1, .attempts = 6}).result();
  EXPECT_TRUE(found.target_met);
  EXPECT_LE(found.best.file.size(), 400u);
  EXPECT_GE(found.best.file.size(), 380u);
  EXPECT_EQ(found.points, run.made);
  EXPECT_EQ(run.saved.size(), run.made.size()) << "each attempt is saved";
  EXPECT_EQ(run.saved.back().points, run.made);
  EXPECT_NE(found.taken.find("the lowest loss of the files of at most 400 bytes"),
            std::string::npos)
      << found.taken;
  EXPECT_EQ(run.lines.size(), run.made.size());
}

TEST(RateSearch, FindsTheSmallestFileWithinADropFromABaseline) {
  FakeRun run;
  const RateSearchResult found =
      RateSearch(run, {.drop = 0.5, .baseline_run = true, .first_lambda = 0.2, .attempts = 6})
          .result();
  EXPECT_TRUE(found.target_met);
  EXPECT_DOUBLE_EQ(run.made.front().lambda, 0.02) << "the baseline run";
  EXPECT_LE(found.best.lambda, 0.5);
  EXPECT_GT(found.best.lambda, 0.3);
  EXPECT_EQ(found.best.file.size(),
            static_cast<std::size_t>(std::llround(run.bytes(found.best.lambda))));
}

TEST(RateSearch, ADropThatNothingKeepsLeavesTheBaselineAndANote) {
  FakeRun run;
  run.drop_of = [](double) { return 7.0; };
  const RateSearchResult found =
      RateSearch(run, {.drop = 0.5, .baseline_run = true, .first_lambda = 0.2, .attempts = 4})
          .result();
  EXPECT_EQ(found.best.lambda, run.made.front().lambda)
      << "the baseline run's drop is 0 by definition";
}

TEST(RateSearch, CollapsedModelsAreGivenUpForTheSmallestThatIsNot) {
  FakeRun run;
  run.collapses_at = 2;
  run.cuts_collapse = true;
  const RateSearchResult found =
      RateSearch(run, {.bytes = 100, .first_lambda = 1, .attempts = 6}).result();
  EXPECT_FALSE(found.best.collapsed());
  EXPECT_LT(found.best.lambda, 2);
  EXPECT_NE(found.note, "");
  run = FakeRun();
  run.collapses_at = 0;
  const RateSearchResult nothing =
      RateSearch(run, {.bytes = 100, .first_lambda = 1, .attempts = 3}).result();
  EXPECT_FALSE(nothing.target_met);
  EXPECT_NE(nothing.note.find("every model found is collapsed"), std::string::npos);
}

TEST(RateSearch, ASizeThatNoAttemptHasIsCutToTheLastResort) {
  FakeRun run;
  run.bytes = [](double) { return 900.0; };  // a plateau
  const RateSearchResult found =
      RateSearch(run, {.bytes = 400, .first_lambda = 1, .attempts = 3}).result();
  EXPECT_EQ(run.cuts, 1);
  EXPECT_EQ(found.best.file.size(), 400u);
}

TEST(RateSearch, LeakageIsTakenOffOnceAndOfAllAttempts) {
  FakeRun run;
  run.leaks = 0.6;
  run.drop_of = [](double lambda) { return 0.6 + lambda / 10; };
  const RateSearchResult found = RateSearch(run, {.drop = 0.5,
                                                  .baseline_run = true,
                                                  .looks_for_leakage = true,
                                                  .first_lambda = 1,
                                                  .attempts = 6})
                                     .result();
  EXPECT_EQ(run.leakages, 1);
  EXPECT_GE(found.best.lambda, 1) << "the first attempt keeps the limit once leakage is taken off";
  EXPECT_NEAR(found.points[1].drop, 0.1, 1e-12);
}

TEST(RateSearch, EndsWhenTheTimeDoes) {
  FakeRun run;
  run.time_left = 2;
  RateSearch(run, {.bytes = 100, .first_lambda = 1, .attempts = 6}).result();
  EXPECT_EQ(run.made.size(), 2u);
}

/// What is saved after an attempt is all that the rest of the search needs.
TEST(RateSearch, AResumedSearchGoesTheSameWay) {
  FakeRun whole;
  const RateSearchRequest request{.bytes = 400, .first_lambda = 0.01, .attempts = 6};
  const RateSearchResult expected = RateSearch(whole, request).result();
  ASSERT_GE(whole.made.size(), 2u);
  FakeRun first;
  first.stops_after = 1;
  EXPECT_EQ(code_of([&] { RateSearch(first, request).result(); }), Errc::kInterrupted);
  FakeRun rest;
  rest.earlier = LambdaRun::Resumed{lambda_search_state_of(to_cbor(first.saved.back())),
                                    std::vector<std::byte>(first.best_bytes), first.saved_base};
  rest.offset = 1;
  if (first.saved_base) rest.restore(first.saved_base);
  const RateSearchResult found = RateSearch(rest, request).result();
  EXPECT_EQ(found.points, expected.points);
  EXPECT_EQ(found.best.file.size(), expected.best.file.size());
}

TEST(RateSearch, AStateWithoutResultsIsRefused) {
  FakeRun run;
  run.earlier = LambdaRun::Resumed{};
  EXPECT_EQ(
      code_of([&] { RateSearch(run, {.bytes = 9, .first_lambda = 1, .attempts = 2}).result(); }),
      Errc::kCorrupt);
}

TEST(RateSearch, OfTwoFilesTheOneThatFitsServesBetter) {
  const auto file = [](std::size_t size, double kept, double loss) {
    return Candidate{.file = std::vector<std::byte>(size), .lambda = 1, .kept = kept, .loss = loss};
  };
  EXPECT_TRUE(serves_better(file(90, 0.9, 5), file(110, 0.9, 1), 100));
  EXPECT_TRUE(serves_better(file(90, 0.9, 1), file(80, 0.9, 2), 100));
  EXPECT_TRUE(serves_better(file(120, 0.9, 1), file(80, 0.1, 1), 100));
  EXPECT_TRUE(serves_better(file(110, 0.9, 9), file(120, 0.9, 1), 100));
  EXPECT_TRUE(serves_better(file(120, 0.4, 1), file(80, 0.1, 1), 100));
  EXPECT_TRUE(serves_better(file(1, 0, 0), Candidate(), 100));
  EXPECT_FALSE(serves_better(Candidate(), file(1, 0, 0), 100));
}

}  // namespace
}  // namespace gbcompress
