#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "gbcompress/error.h"
#include "gbcompress/strategy.h"

namespace gbcompress {
namespace {

TEST(Noise, ASamplesRowDependsOnItsNumberAlone) {
  const NoiseKey key{.seed = 3, .purpose = "test.noise", .layer = "1", .step = 5};
  const std::array<std::int64_t, 4> all = {0, 1, 2, 7}, some = {7, 1, 0, 2};
  const at::Tensor a = normal_noise(key, all, {5, 3}), b = normal_noise(key, some, {5, 3});
  EXPECT_EQ(a.sizes(), (std::vector<std::int64_t>{4, 5, 3}));
  EXPECT_EQ(a.scalar_type(), at::kFloat);
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 4; ++k)
      EXPECT_EQ(a[i].equal(b[k]),
                all[static_cast<std::size_t>(i)] == some[static_cast<std::size_t>(k)]);
  EXPECT_TRUE(normal_noise(key, {5, 3}).equal(a[0])) << "without samples: the first one's";
}

TEST(Noise, EveryPartOfTheKeyCounts) {
  const NoiseKey key{.seed = 3, .purpose = "test.noise", .layer = "1", .step = 5};
  const at::Tensor there = normal_noise(key, {64});
  for (int part = 0; part < 4; ++part) {
    NoiseKey other = key;
    if (part == 0) other.seed = 4;
    if (part == 1) other.purpose = "test.other";
    if (part == 2) other.layer = "2";
    if (part == 3) other.step = 6;
    EXPECT_FALSE(normal_noise(other, {64}).equal(there)) << part;
  }
  const at::Tensor many = normal_noise(key, {20000});
  EXPECT_NEAR(many.mean().item<double>(), 0.0, 0.05);
  EXPECT_NEAR(many.std().item<double>(), 1.0, 0.05);
}

TEST(Dropout, IsThatOfTheSampleAndTheStep) {
  const at::Tensor x = at::ones({3, 4000});
  const std::array<std::int64_t, 3> samples = {5, 9, 2}, moved = {9, 5, 2};
  const auto dropped = [&](std::int64_t step, std::span<const std::int64_t> of,
                           const std::string& layer = "a") {
    const NoiseScope scope(7, step, of);
    return keyed_dropout(x, 0.3, layer, true);
  };
  const at::Tensor one = dropped(4, samples);
  EXPECT_TRUE(one.equal(dropped(4, samples)));
  EXPECT_TRUE(one[0].equal(dropped(4, moved)[1])) << "the row goes with its sample";
  EXPECT_FALSE(one.equal(dropped(5, samples)));
  EXPECT_FALSE(one.equal(dropped(4, samples, "b")));
  EXPECT_NEAR(one.eq(0).to(at::kFloat).mean().item<double>(), 0.3, 0.02);
  EXPECT_NEAR(one.max().item<double>(), 1 / 0.7, 1e-6);
  {
    const NoiseScope outer(7, 4, samples);
    {
      const NoiseScope inner(7, 5, samples);
      EXPECT_TRUE(keyed_dropout(x, 0.3, "a", true).equal(dropped(5, samples)));
    }
    EXPECT_TRUE(keyed_dropout(x, 0.3, "a", true).equal(one)) << "the outer one is back";
    EXPECT_TRUE(keyed_dropout(x, 0.3, "a", false).equal(x)) << "not in training";
    EXPECT_TRUE(keyed_dropout(x, 0, "a", true).equal(x));
    EXPECT_THROW(keyed_dropout(x, 1, "a", true), Error);
    EXPECT_THROW(keyed_dropout(at::ones({2, 4}), 0.3, "a", true), Error);
  }
  EXPECT_GT(keyed_dropout(x, 0.3, "a", true).eq(0).sum().item<std::int64_t>(), 0)
      << "without a scope LibTorch draws";
}

TEST(Inverse, IsFoundByTheModulesType) {
  const auto none = [](const InverseRequest&) { return std::unique_ptr<LayerInverse>(); };
  EXPECT_FALSE(find_inverse("test.Nowhere"));
  register_inverse("test.Layer", none);
  EXPECT_TRUE(find_inverse("test.Layer"));
  EXPECT_FALSE(find_inverse("test.Laye"));
  EXPECT_THROW(register_inverse("", none), Error);
  EXPECT_THROW(register_inverse("test.Empty", nullptr), Error);
  EXPECT_FALSE(find_inverse("test.Empty"));
}

}  // namespace
}  // namespace gbcompress
