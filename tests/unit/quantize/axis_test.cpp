#include "quantize/transforms/axis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/random.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/weights.h"
#include "support/files.h"

namespace gbcompress {
namespace {

std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  RandomStream(seed, "axis").fill_normal(values, 0, 1);
  return values;
}

/// Random in two dimensions, slow along the one of `side` numbers: [outer, side, inner].
std::vector<float> smooth(std::size_t outer, std::size_t side, std::size_t inner) {
  const std::vector<float> random = noise(outer * 3 * inner, outer + side);
  std::vector<float> values;
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t i = 0; i < side; ++i)
      for (std::size_t j = 0; j < inner; ++j) {
        const double x = static_cast<double>(i) / static_cast<double>(side);
        const float* at = random.data() + (o * 3 * inner + j);
        values.push_back(static_cast<float>(static_cast<double>(at[0]) +
                                            static_cast<double>(at[inner]) * std::sin(5 * x) +
                                            static_cast<double>(at[2 * inner]) * std::cos(9 * x)));
      }
  return values;
}

TEST(CosineAxis, IsTheSmoothOne) {
  EXPECT_EQ(cosine_axis(smooth(1, 64, 100), {64, 100}, 0.001, 0.02), 0);
  EXPECT_EQ(cosine_axis(smooth(100, 64, 1), {100, 64}, 0.001, 0.02), 1);
  EXPECT_EQ(cosine_axis(smooth(20, 40, 9), {20, 40, 9}, 0.001, 0.02), 1);
  EXPECT_EQ(cosine_axis(smooth(60, 64, 1), {20, 3, 64}, 0.001, 0.02), 2);
}

TEST(CosineAxis, IsNoneOfRandomOrShortOnes) {
  EXPECT_EQ(cosine_axis(noise(6400, 1), {64, 100}, 0.001, 0.02), -1);
  EXPECT_EQ(cosine_axis(noise(6400, 1), {6400}, 0.001, 0.02), -1);
  EXPECT_EQ(cosine_axis(smooth(500, 3, 1), {500, 3}, 0.001, 0.02), -1);
  EXPECT_EQ(cosine_axis(std::vector<float>(64), {8, 8}, 0.001, 0.02), -1);
  // Sparse in space: cosines would make all of it busy.
  std::vector<float> sparse = noise(64 * 64, 2);
  for (std::size_t i = 0; i < sparse.size(); ++i)
    if (i % 17 != 0) sparse[i] = 0;
  EXPECT_EQ(cosine_axis(sparse, {64, 64}, 0.01, 0.02), -1);
}

/// Windowed sines and cosines of rising frequencies, [rows, cols]; zeros outside of the windows.
std::vector<float> windowed(std::size_t rows, std::size_t cols, bool abrupt) {
  constexpr double kPi = 3.14159265358979;
  std::vector<float> values;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < cols; ++i) {
      const double x = (static_cast<double>(i) + 0.5) / static_cast<double>(cols) - 0.5;
      const double angle = 2 * kPi * x * static_cast<double>(row + 8);
      const double wave = row % 2 == 0 ? std::cos(angle) : std::sin(angle);
      const bool outside = std::fabs(x) > 0.3;
      const double window = abrupt ? 1 : std::pow(std::cos(kPi * x / 0.6), 2);
      values.push_back(static_cast<float>(outside ? 0 : window * wave));
    }
  return values;
}

TEST(CosineAxis, MovesZerosOfWavesAlone) {
  EXPECT_EQ(cosine_axis(windowed(36, 256, false), {36, 256}, 0.001, kWave), 1);
  // The zeros begin beside large values, as in a mask; along columns of zeros they stay.
  EXPECT_NE(cosine_axis(windowed(36, 256, true), {36, 256}, 0.001, 0.02), 1);
  // Zeros that are passed between values of opposite signs are a few of a sine's.
  std::vector<float> sines;
  for (int row = 1; row <= 32; ++row) {
    const int frequency = (row * row * row + 5) % 37 + 1;  // no wave along the rows
    for (int i = 0; i < 128; ++i) {
      const double at = 3.14159265358979 * i / 64;
      const double value = std::sin(frequency * at) * (0.5 - 0.5 * std::cos(at));
      sines.push_back(i * frequency % 64 == 0 ? 0.f : static_cast<float>(value));
    }
  }
  const auto zeros = static_cast<double>(std::ranges::count(sines, 0.f));
  ASSERT_GT(zeros / static_cast<double>(sines.size()), 0.05);
  EXPECT_EQ(cosine_axis(sines, {32, 128}, 0.001, kWave), 1);
}

struct Written {
  std::int64_t bytes = 0;
  double worst = 0;
  int axis = -1;
};

Written written(const std::vector<float>& values, const WeightsOptions& options) {
  const testing::TempDir folder;
  TensorBundle bundle;
  bundle.tensors = {{"w", DType::kF32, {64, 100}, std::as_bytes(std::span(values))}};
  const auto path = folder.path() / "w.gbz";
  const WeightsReport report = compress_weights(bundle, path, options);
  return {report.output_bytes, report.tensors[0].error,
          ArtifactReader::open(path).tensors()[0].axis};
}

TEST(CosineAxis, SavesBytesAndKeepsTheErrorThatIsAsked) {
  const std::vector<float> values = smooth(1, 64, 100);
  std::vector<float> shuffled = values;  // the same numbers, no axis smooth
  for (std::size_t i = shuffled.size(); i-- > 1;)
    std::swap(shuffled[i], shuffled[RandomStream(3, "axis").bits(i) % (i + 1)]);
  for (const Quantizer quantizer : {Quantizer::kTrellis, Quantizer::kNearest}) {
    WeightsOptions options{.max_error = 0.001, .quantizer = quantizer};
    const Written with = written(values, options), without = written(shuffled, options);
    EXPECT_EQ(with.axis, 0);
    EXPECT_EQ(without.axis, -1);
    EXPECT_LE(with.worst, 0.001);
    EXPECT_LT(with.bytes, without.bytes / 3);
    options.max_error = {};
    options.max_bytes = 1500;
    const Written sized = written(values, options);
    EXPECT_EQ(sized.axis, 0);
    EXPECT_LE(sized.bytes, 1500);
    EXPECT_LT(sized.worst, 0.01);
  }
}

}  // namespace
}  // namespace gbcompress
