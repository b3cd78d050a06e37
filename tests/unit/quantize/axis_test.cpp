#include "quantize/transforms/axis.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(cosine_axis(smooth(1, 64, 100), {64, 100}, 0.001), 0);
  EXPECT_EQ(cosine_axis(smooth(100, 64, 1), {100, 64}, 0.001), 1);
  EXPECT_EQ(cosine_axis(smooth(20, 40, 9), {20, 40, 9}, 0.001), 1);
  EXPECT_EQ(cosine_axis(smooth(60, 64, 1), {20, 3, 64}, 0.001), 2);
}

TEST(CosineAxis, IsNoneOfRandomOrShortOnes) {
  EXPECT_EQ(cosine_axis(noise(6400, 1), {64, 100}, 0.001), -1);
  EXPECT_EQ(cosine_axis(noise(6400, 1), {6400}, 0.001), -1);
  EXPECT_EQ(cosine_axis(smooth(500, 3, 1), {500, 3}, 0.001), -1);
  EXPECT_EQ(cosine_axis(std::vector<float>(64), {8, 8}, 0.001), -1);
  // Sparse in space: cosines would make all of it busy.
  std::vector<float> sparse = noise(64 * 64, 2);
  for (std::size_t i = 0; i < sparse.size(); ++i)
    if (i % 17 != 0) sparse[i] = 0;
  EXPECT_EQ(cosine_axis(sparse, {64, 64}, 0.01), -1);
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
