#include <gtest/gtest.h>

#include <map>

#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

using testing_codec::encode;
using testing_codec::laplace;
using testing_codec::random_tensor;
using testing_codec::Tensor;

class Size : public ::testing::TestWithParam<CodecProfile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, Size, ::testing::Values(CodecProfile::kSmall),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

/// Laplace weights with a scale for every row and every column, and the bits that one who knows
/// those scales needs.
struct Known {
  Tensor tensor;
  double bits = 0;
};
Known known_scales(std::int64_t rows, std::int64_t cols, double scale) {
  const RandomStream random(9, "scales");
  const auto tail = [](double x, double b) {
    return x < 0 ? std::exp(x / b) / 2 : 1 - std::exp(-x / b) / 2;
  };
  Known known{{{rows, cols, 0}, {}, {}}};
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double row = random.normal(static_cast<std::uint64_t>(i / cols));
    const double col = random.normal(static_cast<std::uint64_t>(1000000 + i % cols));
    const double b = scale * std::exp(0.5 * row + 0.5 * col);
    const double value = std::round(laplace(random, 2000000 + i, b));
    known.tensor.values.push_back(static_cast<std::int32_t>(value));
    known.bits -= std::log2(tail(value + 0.5, b) - tail(value - 0.5, b));
  }
  return known;
}

/// Bits of the best code that has one table for the whole tensor.
double static_bits(const std::vector<std::int32_t>& values) {
  std::map<std::int32_t, double> counts;
  for (std::int32_t value : values) ++counts[value];
  double bits = 0;
  for (const auto& [value, count] : counts)
    bits -= count * std::log2(count / static_cast<double>(values.size()));
  return bits;
}

TEST_P(Size, IsWhatTheProbabilitiesAskFor) {
  for (std::uint64_t seed = 300; seed < 340; ++seed) {
    const Tensor tensor = random_tensor(seed);
    IntegerEncoder encoder(GetParam());
    encoder.add(tensor.grid, tensor.values, tensor.prior);
    const double ideal = encoder.ideal_bits() / 8;
    const auto bytes = static_cast<double>(encoder.finish().size());
    EXPECT_LE(bytes, 1.01 * ideal + 64) << seed;
    EXPECT_GE(bytes, ideal - 4) << seed;
  }
}

TEST_P(Size, IsNearTheIdealOfOneWhoKnowsTheScales) {
  for (const auto& [scale, slack] : {std::pair{0.3, 1.06}, {2.0, 1.03}, {20.0, 1.035}}) {
    const Known known = known_scales(400, 300, scale);
    const double bits = 8.0 * static_cast<double>(encode(GetParam(), {known.tensor}).size());
    EXPECT_LT(bits, slack * known.bits) << scale;
    EXPECT_LT(bits, 0.985 * static_bits(known.tensor.values)) << scale;
  }
}

TEST_P(Size, OfATensorOfZerosIsNearlyNothing) {
  const Tensor zeros{{500, 400, 20}, std::vector<std::int32_t>(200000, 0), {}};
  EXPECT_LE(encode(GetParam(), {zeros}).size(), GetParam() == CodecProfile::kSmall ? 40u : 300u);
}

TEST_P(Size, FallsWhenThePriorKnowsTheScale) {
  const RandomStream random(5, "prior");
  Tensor tensor{{60, 100, 0}, {}, {}};
  for (std::uint64_t i = 0; i < 6000; ++i) {
    tensor.prior.push_back(static_cast<std::uint8_t>(random.bits(i) % 16));
    const double scale = 0.5 * std::exp2((tensor.prior.back() - 8.0) / 3);
    tensor.values.push_back(
        static_cast<std::int32_t>(std::lrint(laplace(random, 10000 + i, scale))));
  }
  const auto with = encode(GetParam(), {tensor}).size();
  tensor.prior.clear();
  EXPECT_LT(static_cast<double>(with),
            0.87 * static_cast<double>(encode(GetParam(), {tensor}).size()));
}

TEST(SmallSize, FallsWhereAnEarlierTensorShowsDeadUnits) {
  const RandomStream random(6, "dead");
  Tensor first{{100, 64, 8}, {}, {}}, second{{30, 100, 0}, {}, {}};
  const auto alive = [&](std::uint64_t unit) { return random.bits(unit) % 4 == 0; };
  for (std::uint64_t i = 0; i < 6400; ++i)
    first.values.push_back(alive(i / 64) ? static_cast<int>(laplace(random, 1000 + i, 1.5)) : 0);
  for (std::uint64_t i = 0; i < 3000; ++i)
    second.values.push_back(alive(i % 100) ? static_cast<int>(laplace(random, 9000 + i, 1.5)) : 0);
  const auto alone = encode(CodecProfile::kSmall, {second}).size();
  const auto both = encode(CodecProfile::kSmall, {first, second}).size();
  EXPECT_LT(both - encode(CodecProfile::kSmall, {first}).size(), alone * 95 / 100);
}

TEST(SmallSize, FallsWithTheWidthOfThePicture) {
  const RandomStream random(8, "picture");
  Tensor tensor{{40, 400, 0}, {}, {}};
  for (std::uint64_t i = 0; i < 16000; ++i) {  // most pixels look like the one above them
    const bool copy = i % 400 >= 20 && random.bits(20000 + i) % 8 != 0;
    tensor.values.push_back(copy ? tensor.values[i - 20] : static_cast<int>(laplace(random, i, 1)));
  }
  const auto without = encode(CodecProfile::kSmall, {tensor}).size();
  tensor.grid.stride = 20;
  EXPECT_LT(encode(CodecProfile::kSmall, {tensor}).size(), without * 85 / 100);
}

TEST(SmallSize, OfABiasIsCloseToItsEntropy) {
  const RandomStream random(7, "bias");
  double bits = 0;
  std::size_t bytes = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    Tensor bias{{1, 100, 0}, {}, {}};
    for (std::uint64_t i = 0; i < 100; ++i)
      bias.values.push_back(static_cast<std::int32_t>(laplace(random, round * 100 + i, 5)));
    // Entropy of a Laplace number of scale 5 that is cut towards zero: two-sided geometric.
    for (std::int32_t value : bias.values) {
      const double zero = 1 - std::exp(-0.2);
      bits -= value ? std::log2(zero / 2 * std::exp(-0.2 * std::abs(value))) : std::log2(zero);
    }
    bytes += encode(CodecProfile::kSmall, {bias}).size();
  }
  EXPECT_LT(8.0 * static_cast<double>(bytes), 1.12 * bits);
}

}  // namespace
}  // namespace gbcompress
