#include <gtest/gtest.h>

#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

class Choice : public ::testing::TestWithParam<CodecProfile> {
 protected:
  Choice() {
    const RandomStream random(11, "choice");
    for (std::int64_t i = 0; i < grid_.size(); ++i)
      scaled_.push_back(static_cast<float>(
          testing_codec::laplace(random, static_cast<std::uint64_t>(i), i % 150 < 50 ? 0.3 : 1.2)));
  }
  struct Outcome {
    std::vector<std::int32_t> values;
    double bits = 0, distortion = 0;
    std::size_t bytes = 0;
  };
  Outcome choose(double lambda, std::span<const float> importance = {}) const {
    IntegerEncoder encoder(GetParam());
    Outcome outcome;
    outcome.values = encoder.quantize_and_add(grid_, scaled_, importance, lambda);
    outcome.bits = encoder.ideal_bits();
    const auto stream = encoder.finish();
    outcome.bytes = stream.size();
    for (std::size_t i = 0; i < scaled_.size(); ++i)
      outcome.distortion += std::pow(scaled_[i] - static_cast<float>(outcome.values[i]), 2.0);
    std::vector<std::int32_t> found(outcome.values.size());
    IntegerDecoder decoder(GetParam(), stream);
    decoder.read(grid_, found);
    decoder.finish();
    EXPECT_EQ(found, outcome.values);
    return outcome;
  }

  IntegerGrid grid_{200, 150, 15};
  std::vector<float> scaled_;
};
INSTANTIATE_TEST_SUITE_P(Profiles, Choice, ::testing::Values(CodecProfile::kSmall),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

TEST_P(Choice, WithoutLambdaIsTheNearestInteger) {
  const auto values = choose(0).values;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<std::int32_t>(std::lrint(scaled_[i])));
}

TEST_P(Choice, TradesErrorForBits) {
  const Outcome nearest = choose(0);
  std::size_t bytes = nearest.bytes;
  for (double lambda : {0.05, 0.15, 0.5}) {
    const Outcome chosen = choose(lambda);
    EXPECT_LT(chosen.bytes, bytes) << lambda;
    EXPECT_LT(chosen.distortion + lambda * chosen.bits, nearest.distortion + lambda * nearest.bits)
        << lambda;
    bytes = chosen.bytes;
  }
}

TEST_P(Choice, SparesWhatMatters) {
  std::vector<float> importance(150, 1);
  std::fill(importance.begin() + 75, importance.end(), 100);
  const auto values = choose(0.5, importance).values;
  std::vector<float> each;
  for (std::size_t i = 0; i < scaled_.size(); ++i) each.push_back(importance[i % 150]);
  EXPECT_EQ(choose(0.5, each).values, values);
  int moved = 0, moved_important = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != std::lrint(scaled_[i])) ++(i % 150 < 75 ? moved : moved_important);
  EXPECT_GT(moved, 20 * moved_important);
}

TEST(ExpectedScales, FollowTheColumns) {
  const RandomStream random(12, "scales");
  const IntegerGrid grid{400, 60, 0};
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < grid.size(); ++i)
    values.push_back(static_cast<std::int32_t>(std::lrint(
        testing_codec::laplace(random, static_cast<std::uint64_t>(i), i % 60 < 30 ? 0.3 : 3))));
  const auto scales = expected_scales(grid, values);
  ASSERT_EQ(scales.size(), values.size());
  double low = 0, high = 0;
  for (std::size_t i = values.size() / 2; i < values.size(); ++i)
    (i % 60 < 30 ? low : high) += std::log(scales[i]) / (values.size() / 4.0);
  EXPECT_NEAR(std::exp(low), 0.3, 0.03);
  EXPECT_NEAR(std::exp(high), 3, 0.3);
}

TEST(ExpectedScales, StayInTheirBounds) {
  const IntegerGrid grid{300, 100, 0};
  for (std::int32_t value : {0, kMaxMagnitude}) {
    const std::vector<std::int32_t> values(30000, value);
    for (float scale : expected_scales(grid, values)) {
      ASSERT_GE(scale, 0.02f);
      ASSERT_LE(scale, 1000.0f);
    }
  }
}

}  // namespace
}  // namespace gbcompress
