#include "optim/gnet_layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

GNetSpec spec_of(Generator generator) {
  const ParameterInfo info{
      .name = "fc.weight", .local_name = "weight", .shape = {50, 70}, .std = 0.3};
  return make_spec(info, {},
                   {.tile_weights = 900, .hidden = {9}, .generator = generator, .rank = 3});
}
GnetLayer layer_of(const GNetSpec& spec, std::uint64_t seed = 1) {
  return GnetLayer(spec, "fc.weight", seed, {.lr = 1e-2});
}

/// One range for each `grain` items, or all in one.
RangeRunner runner(bool cut) {
  return [cut](std::int64_t n, std::int64_t grain, const auto& body) {
    const std::int64_t step = cut ? grain : std::max<std::int64_t>(n, 1);
    for (std::int64_t first = 0; first < n; first += step) body(first, std::min(n, first + step));
  };
}

/// Parameters after three steps towards weights of 0.
std::vector<float> trained(GnetLayer layer, const TileKernel& kernel, TileLayout layout, bool cut) {
  std::vector<float> weights(static_cast<std::size_t>(layer.floats(layout)));
  for (std::uint64_t step = 0; step < 3; ++step) {
    layer.zero_grad();
    layer.predict(kernel, weights, layout, step);
    layer.backward(kernel, weights, layout, 1e-2f);
    layer.step(1, runner(cut));
  }
  EXPECT_EQ(layer.steps(), 3);
  return {layer.theta().begin(), layer.theta().end()};
}

class GnetLayerOf : public ::testing::TestWithParam<Generator> {};

TEST_P(GnetLayerOf, RangesChangeNoBit) {
  const GNetSpec spec = spec_of(GetParam());
  for (const TileLayout layout : {TileLayout::kTensor, TileLayout::kTiles})
    EXPECT_EQ(trained(layer_of(spec), *make_fused_kernel_with(runner(true)), layout, true),
              trained(layer_of(spec), *make_fused_kernel_with(runner(false)), layout, false));
}

TEST_P(GnetLayerOf, KernelsAgree) {
  const GNetSpec spec = spec_of(GetParam());
  const auto fused =
      trained(layer_of(spec), *make_fused_kernel_with(runner(false)), TileLayout::kTensor, false);
  const auto exact =
      trained(layer_of(spec), *make_exact_kernel_with(runner(true)), TileLayout::kTensor, false);
  ASSERT_EQ(fused.size(), exact.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < fused.size(); ++i) {
    difference += std::pow(fused[i] - exact[i], 2);
    size += std::pow(exact[i], 2);
  }
  EXPECT_LT(difference, 1e-6 * size);
}

INSTANTIATE_TEST_SUITE_P(Generators, GnetLayerOf,
                         ::testing::Values(Generator::kGNet, Generator::kStochastic,
                                           Generator::kLowRank, Generator::kXox));

TEST(GnetLayer, WeightsFallTowardsZero) {
  GnetLayer layer = layer_of(spec_of(Generator::kGNet));
  const auto kernel = make_fused_kernel_with(runner(false));
  std::vector<float> weights(50 * 70);
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    layer.zero_grad();
    layer.predict(*kernel, weights, TileLayout::kTensor, {});
    last = 0;
    for (const float w : weights) last += double{w} * double{w};
    if (step == 0) first = last;
    layer.backward(*kernel, weights, TileLayout::kTensor, 1);
    layer.step(1, runner(false));
  }
  EXPECT_LT(last, 0.01 * first);
}

TEST(GnetLayer, RestoredLayerGivesTheSameWeights) {
  GnetLayer a = layer_of(spec_of(Generator::kGNet)), b = layer_of(spec_of(Generator::kGNet), 2);
  const auto kernel = make_exact_kernel_with(runner(false));
  std::vector<float> from(50 * 70), to(50 * 70);
  a.predict(*kernel, from, TileLayout::kTensor, {});
  b.predict(*kernel, to, TileLayout::kTensor, {});
  EXPECT_NE(from, to) << "the seed changes the first values";
  b.restore(a.theta(), a.spec().output_scale);
  b.predict(*kernel, to, TileLayout::kTensor, {});
  EXPECT_EQ(from, to);
}

TEST(GnetLayer, GoesOnFromItsMoments) {
  const auto kernel = make_exact_kernel_with(runner(false));
  const auto train = [&](GnetLayer& layer, int from, int to) {
    for (int step = from; step < to; ++step) {
      std::vector<float> weights(50 * 70);
      layer.zero_grad();
      layer.predict(*kernel, weights, TileLayout::kTensor, {});
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] -= static_cast<float>((i + static_cast<std::size_t>(step)) % 5);
      layer.backward(*kernel, weights, TileLayout::kTensor, 1);
      layer.step(1, runner(false));
    }
  };
  GnetLayer whole = layer_of(spec_of(Generator::kGNet)), first = whole, second = whole;
  train(whole, 0, 6);
  train(first, 0, 3);
  second.restore(first.theta(), first.spec().output_scale);
  second.restore_moments(first.first_moment(), first.second_moment(), first.steps());
  train(second, 3, 6);
  EXPECT_TRUE(std::equal(whole.theta().begin(), whole.theta().end(), second.theta().begin()));
  EXPECT_EQ(second.steps(), 6);
  first.restore(first.theta(), first.spec().output_scale);
  EXPECT_TRUE(first.first_moment().empty());
  train(first, 3, 6);  // the optimizer starts anew
  EXPECT_FALSE(std::equal(whole.theta().begin(), whole.theta().end(), first.theta().begin()));
  EXPECT_THROW(second.restore_moments(second.first_moment(), {}, 1), Error);
  EXPECT_THROW(second.restore_moments({}, {}, -1), Error);
}

TEST(GnetLayer, RefusesOtherSizesAndGradientsThatAreNotFinite) {
  GnetLayer layer = layer_of(spec_of(Generator::kGNet));
  const auto kernel = make_exact_kernel_with(runner(false));
  std::vector<float> weights(50 * 70 + 1);
  EXPECT_THROW(layer.predict(*kernel, weights, TileLayout::kTensor, {}), Error);
  EXPECT_THROW(layer.restore(weights, 1), Error);
  weights.pop_back();
  EXPECT_THROW(layer.predict(*kernel, weights, TileLayout::kTiles, {}), Error);
  EXPECT_THROW(layer.step(-1, runner(false)), Error);
  weights[7] = std::numeric_limits<float>::quiet_NaN();
  try {
    layer.backward(*kernel, weights, TileLayout::kTensor, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kNonFinite);
    EXPECT_NE(std::string(error.what()).find("fc.weight"), std::string::npos);
  }
}

}  // namespace
}  // namespace gbcompress
