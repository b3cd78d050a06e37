/// Calibration with an evaluator of the test's.
#include "gbcompress/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gbcompress/error.h"
#include "quantize/candidates.h"
#include "support/decoded.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::decoded;
using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

constexpr std::int64_t kRows = 40, kCols = 48;
constexpr auto kSize = static_cast<std::size_t>(kCols);

/// A layer whose inputs are combinations of few numbers.
class Layer : public Evaluator {
 public:
  Layer() : weights(normals(kRows * kCols, 1)) {
    made.add("l.weight", {kRows, kCols}, weights);
    made.add("l.bias", {kRows}, normals(kRows, 2, 0.1f));
    made.sorted();
    const auto mixed = normals(kCols * 6, 3);
    TensorStatistics& own = statistics.tensors["l.weight"];
    for (std::size_t i = 0; i < kSize; ++i)
      for (std::size_t j = 0; j < kSize; ++j) {
        float sum = i == j ? 0.05f : 0;
        for (std::size_t k = 0; k < 6; ++k) sum += mixed[6 * i + k] * mixed[6 * j + k];
        own.input_moment.push_back(sum);
      }
    own.input_mean.assign(kSize, 0.1f);
    own.row_importance.assign(static_cast<std::size_t>(kRows), 1);
  }

  /// tr(E A ET)
  double error(const std::filesystem::path& file) override {
    files.push_back(file);
    if (throws) throw Error(Errc::kFailure, "the model is gone");
    const std::vector<float> stored = decoded(file, "l.weight");
    const std::vector<float>& moment = statistics.tensors.at("l.weight").input_moment;
    double sum = 0;
    for (std::size_t row = 0; row < weights.size(); row += kSize)
      for (std::size_t j = 0; j < kSize; ++j)
        for (std::size_t k = 0; k < kSize; ++k)
          sum += static_cast<double>(weights[row + j] - stored[row + j]) *
                 static_cast<double>(moment[j * kSize + k]) *
                 static_cast<double>(weights[row + k] - stored[row + k]);
    return nothing ? NAN : sum;
  }
  std::optional<double> quality(const std::filesystem::path&) override { return chosen; }
  std::map<std::string, std::vector<float>> refitted(const std::filesystem::path&) override {
    if (!refits) return {};
    return {{"l.bias", std::vector<float>(static_cast<std::size_t>(kRows), 0.5f)}};
  }

  Calibration calibration(CalibrationOptions options = {}) {
    options.folder = folder.path();
    return {made.bundle, statistics, *this, std::move(options)};
  }

  const std::vector<float> weights;
  MadeTensors made;
  Statistics statistics;
  TempDir folder;
  std::vector<std::filesystem::path> files;
  std::optional<double> chosen;
  bool refits = false, nothing = false, throws = false;
};

constexpr std::int64_t kBytes = kRows * kCols / 3;

TEST(Calibration, TheFileOfTheLeastErrorIsKept) {
  Layer layer;
  std::vector<CandidateError> told;
  Calibration calibration =
      layer.calibration({.tell = [&](const CandidateError& each) { told.push_back(each); }});
  const CalibratedFile best = calibration.best(kBytes);
  EXPECT_GT(best.candidates.size(), 3u);
  EXPECT_EQ(best.candidates.front().name, "data-free");
  EXPECT_EQ(told.size(), best.candidates.size());
  double least = HUGE_VAL;
  for (const CandidateError& each : best.candidates) least = std::min(least, each.error);
  EXPECT_EQ(best.error, least);
  EXPECT_EQ(layer.error(best.file), least);
  EXPECT_LT(best.error, 0.5 * best.candidates.front().error);
  EXPECT_LE(best.report.output_bytes, kBytes);
  EXPECT_EQ(best.report.identity, ArtifactReader::open(best.file).identity());
  // Of the others nothing is left.
  const std::filesystem::directory_iterator left(layer.folder.path());
  EXPECT_EQ(std::distance(begin(left), end(left)), 1);
}

TEST(Calibration, WithoutTimeTheFirstTwoAreThere) {
  Layer layer;
  Calibration calibration = layer.calibration({.time = [] { return false; }});
  const CalibratedFile best = calibration.best(kBytes);
  ASSERT_EQ(best.candidates.size(), 2u);
  EXPECT_EQ(best.method, "error feedback, steps by importance");
}

TEST(Calibration, ManyWeightsNeedTimeForMore) {
  Layer layer;
  const std::vector<std::uint8_t> zeros(60'000'001);
  layer.made.add("z", DType::kU8, {static_cast<std::int64_t>(zeros.size())}, zeros);
  layer.made.sorted();
  EXPECT_EQ(layer.calibration().best(kBytes).candidates.size(), 2u);
  int asked = 0;
  CalibrationOptions limited{.time = [&] { return ++asked < 3; }};
  EXPECT_EQ(layer.calibration(std::move(limited)).best(kBytes).candidates.size(), 4u);
}

TEST(Calibration, CandidatesShareTheWeightsThatAreMade) {
  Layer layer;
  const std::vector<std::uint8_t> zeros(18'000'000);
  layer.made.add("z", DType::kU8, {static_cast<std::int64_t>(zeros.size())}, zeros);
  layer.made.sorted();
  EXPECT_EQ(layer.calibration().best(kBytes).candidates.size(), 4u);
}

TEST(Calibration, FurtherSizesTryWhatWasBest) {
  Layer layer;
  Calibration calibration = layer.calibration();
  const auto first = calibration.best(kBytes);
  const auto second = calibration.best(kBytes * 3 / 4);
  EXPECT_EQ(second.candidates.size(), 3u);
  EXPECT_LE(second.report.output_bytes, kBytes * 3 / 4);
  EXPECT_GT(second.error, first.error);
}

TEST(Calibration, QualityChoosesWhereItIsMeasured) {
  Layer layer;
  layer.chosen = 1;  // of all candidates the same: the least error
  Calibration calibration = layer.calibration();
  const CalibratedFile best = calibration.best(kBytes);
  EXPECT_EQ(best.quality, 1);
  for (const CandidateError& each : best.candidates) EXPECT_LE(best.error, each.error);
}

TEST(Calibration, RefittedVectorsAreInTheFileWithinItsSize) {
  Layer layer;
  layer.refits = true;
  Calibration calibration = layer.calibration();
  const CalibratedFile best = calibration.best(kBytes);
  EXPECT_NE(best.method, "data-free");
  EXPECT_LE(std::filesystem::file_size(best.file), static_cast<std::uintmax_t>(kBytes));
  EXPECT_EQ(static_cast<std::int64_t>(std::filesystem::file_size(best.file)),
            best.report.output_bytes);
  for (const float value : decoded(best.file, "l.bias")) EXPECT_EQ(value, 0.5f);
}

TEST(Calibration, ErrorsThatAreNoNumbersLose) {
  Layer layer;
  layer.nothing = true;
  Calibration calibration = layer.calibration();
  EXPECT_EQ(calibration.best(kBytes).method, "data-free");
}

TEST(Calibration, WhatTheEvaluatorThrowsEndsTheSearchAndTheNextOneIsWhole) {
  Layer layer;
  Calibration calibration = layer.calibration();
  layer.throws = true;
  GBC_EXPECT_ERROR(calibration.best(kBytes), Errc::kFailure, "the model is gone");
  layer.throws = false;
  const CalibratedFile best = calibration.best(kBytes);
  EXPECT_LE(best.report.output_bytes, kBytes);
  EXPECT_EQ(best.candidates[0].name, "data-free");
}

TEST(Calibration, MissedSizesLose) {
  Layer layer;
  Calibration calibration = layer.calibration();
  const CalibratedFile best = calibration.best(64);
  EXPECT_FALSE(best.report.target_met);
  EXPECT_FALSE(best.report.target_note.empty());
}

TEST(Candidates, FollowFromWhatTheStatisticsHold) {
  const auto names = [](const Statistics& statistics) {
    std::vector<std::string> found;
    for (const CandidateUse& use : candidate_uses(statistics)) found.push_back(use.name);
    return found;
  };
  EXPECT_EQ(names({}), std::vector<std::string>{"data-free"});
  Layer layer;
  Statistics both = layer.statistics;
  both.tensors.at("l.weight").output_moment.assign(static_cast<std::size_t>(kRows * kRows), 0);
  EXPECT_EQ(names(both)[1], "error feedback, steps by importance");
  EXPECT_EQ(names(both)[2], "two-sided error feedback, steps by importance");
  EXPECT_EQ(names(layer.statistics)[1], "error feedback, steps by importance");
  const std::string tensors = "error feedback, steps of tensors by importance";
  EXPECT_EQ(std::ranges::count(names(layer.statistics), tensors), 0);  // all rows have the same
  Statistics rows = layer.statistics;
  rows.tensors.at("l.weight").row_importance[3] = 2;
  EXPECT_EQ(names(rows)[2], tensors);
  Statistics moments = layer.statistics;
  moments.tensors.at("l.weight").row_importance.clear();
  for (const std::string& name : names(moments))
    EXPECT_EQ(name.find("importance"), std::string::npos) << name;
  Statistics importance;
  importance.tensors["l.weight"].row_importance = {1, 2};
  EXPECT_EQ(names(importance), (std::vector<std::string>{"data-free", "steps by importance"}));
  EXPECT_FALSE(with_biases_kept(candidate_uses(importance)[1], importance, layer.made.bundle));
  EXPECT_FALSE(with_shrunk_moments(candidate_uses(importance)[1], importance));
  EXPECT_FALSE(with_shrunk_moments(candidate_uses(layer.statistics)[0], layer.statistics));
}

TEST(Candidates, BiasesAreKeptWhereTheyWereCorrected) {
  Layer layer;
  const CandidateUse use = candidate_uses(layer.statistics)[1];
  EXPECT_FALSE(with_biases_kept(use, layer.statistics, {}));  // there is no l.bias
  const auto kept = with_biases_kept(use, layer.statistics, layer.made.bundle);
  ASSERT_TRUE(kept);
  EXPECT_FALSE(kept->use.bias);
  EXPECT_FALSE(with_biases_kept(*kept, layer.statistics, layer.made.bundle));
}

TEST(Candidates, MomentsShrinkToAQuarter) {
  Layer layer;
  const CandidateUse use = candidate_uses(layer.statistics)[1];
  std::vector<double> parts;
  std::string name;
  for (auto next = with_shrunk_moments(use, layer.statistics); next;
       next = with_shrunk_moments(*next, layer.statistics)) {
    parts.push_back(next->use.shrinkage);
    name = next->name;
  }
  EXPECT_EQ(parts, (std::vector<double>{0.25, 0.5, 0.75}));
  EXPECT_EQ(name, use.name + ", moments shrunk by 75 %");
}

TEST(Candidates, FeedbackWhereItPays) {
  Layer layer;  // of rank 6
  TensorStatistics& alike = layer.statistics.tensors["other.weight"];
  alike.input_moment.assign(kSize * kSize, 0);
  for (std::size_t i = 0; i < kSize; ++i) alike.input_moment[i * (kSize + 1)] = 1;
  for (const CandidateUse& use : candidate_uses(layer.statistics))
    if (use.name.find("where it pays") != std::string::npos) {
      EXPECT_EQ(use.use.without_moments.size(), 1u);
      EXPECT_TRUE(use.use.without_moments.contains("other.weight"));
      return;
    }
  FAIL() << "there is no such candidate";
}

}  // namespace
}  // namespace gbcompress
