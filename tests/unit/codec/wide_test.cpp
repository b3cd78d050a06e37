#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "gbcompress/codec.h"
#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

/// Normal numbers of a deviation that rows and columns share.
std::vector<std::int32_t> normal(const IntegerGrid& grid, double deviation, std::uint64_t seed) {
  const RandomStream noise(seed, "wide");
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < grid.size(); ++i) {
    const double factor = std::exp2(static_cast<double>(i / grid.cols % 3 - i % grid.cols % 2));
    const double value =
        deviation * factor * static_cast<double>(noise.normal(static_cast<std::uint64_t>(i)));
    values.push_back(static_cast<std::int32_t>(
        std::clamp(std::nearbyint(value), -1.0 * kMaxMagnitude, 1.0 * kMaxMagnitude)));
  }
  return values;
}

TEST(Wide, ComesBackInAnyShapeAndSize) {
  const IntegerGrid grids[] = {{1, 1, 0}, {1, 50, 0},  {40, 1, 0},
                               {7, 9, 3}, {16, 64, 8}, {3, 4, 0}};
  for (const double deviation : {0.1, 3.0, 45.0, 5000.0, 400000.0}) {
    IntegerEncoder encoder(CodecProfile::kSmall);
    std::vector<std::vector<std::int32_t>> all;
    for (IntegerGrid grid : grids)
      for (const bool wide : {true, false}) {
        grid.wide = wide;
        all.push_back(normal(grid, deviation, all.size()));
        encoder.add(grid, all.back());
      }
    const std::vector<std::byte> stream = encoder.finish();
    EXPECT_NEAR(8.0 * static_cast<double>(stream.size()), encoder.ideal_bits(), 16);
    IntegerDecoder decoder(CodecProfile::kSmall, stream);
    std::size_t at = 0;
    for (IntegerGrid grid : grids)
      for (const bool wide : {true, false}) {
        grid.wide = wide;
        std::vector<std::int32_t> values(all[at].size());
        decoder.read(grid, values);
        EXPECT_EQ(values, all[at]) << at << " of deviation " << deviation;
        ++at;
      }
    decoder.finish();
  }
}

TEST(Wide, TakesWhatAGaussianHas) {
  IntegerGrid grid{256, 256, 0};
  const RandomStream noise(5, "wide");
  std::vector<std::int32_t> values;
  for (std::uint64_t i = 0; i < 65536; ++i)
    values.push_back(static_cast<std::int32_t>(std::lrint(45 * noise.normal(i))));
  const auto bits = [&](bool wide) {
    grid.wide = wide;
    IntegerEncoder encoder(CodecProfile::kSmall);
    encoder.add(grid, values);
    return encoder.ideal_bits() / 65536;
  };
  const double entropy = std::log2(45 * std::sqrt(2 * 3.14159265 * 2.71828183));
  EXPECT_LT(bits(true), entropy + 0.02);
  EXPECT_GT(bits(true), entropy - 0.02);
  EXPECT_LT(bits(true), bits(false) - 0.02);
}

TEST(Wide, KnowsThatARowHasItsLargestMagnitudeOnce) {
  // Every row has one 127, and what is before and behind it is small.
  IntegerGrid grid{400, 32, 0, false, true};
  const RandomStream noise(6, "wide");
  std::vector<std::int32_t> values(static_cast<std::size_t>(grid.size()));
  for (std::uint64_t row = 0; row < 400; ++row)
    values[row * 32 + noise.bits(row) % 32] = noise.bits(1000 + row) % 2 ? 127 : -127;
  IntegerEncoder encoder(CodecProfile::kSmall);
  encoder.add(grid, values);
  EXPECT_LT(encoder.ideal_bits() / 400, 5 + 1 + 1);  // its place, its sign, learning
}

TEST(Wide, IsNotDependent) {
  const IntegerGrid grid{2, 2, 0, true, true};
  IntegerEncoder encoder(CodecProfile::kSmall);
  EXPECT_EQ(code_of([&] { encoder.add(grid, std::vector<std::int32_t>(4)); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
