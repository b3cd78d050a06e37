#include "quantize/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "artifact/sections/elements.h"
#include "artifact/sections/levels.h"
#include "base/random.h"
#include "quantize/factors.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::normals;

/// A tensor that owns its bytes.
struct Made {
  std::vector<std::byte> bytes;
  std::vector<float> values;
  TensorEntry entry;

  Made(const std::vector<float>& from, std::vector<std::int64_t> shape, DType dtype)
      : bytes(elements_of(from, dtype)),
        values(from.size()),
        entry{"w", dtype, std::move(shape), bytes} {
    floats_of(bytes, dtype, values);
  }
  std::optional<LevelTable> find(bool zero_signs = true) const {
    return find_levels(entry, values, zero_signs);
  }
};

std::vector<float> quantized(std::size_t rows, std::size_t cols, std::size_t group, int most) {
  std::vector<float> values = normals(rows * cols, 21);
  for (std::size_t first = 0; first < values.size(); first += group) {
    float largest = 0;
    for (std::size_t i = first; i < first + group; ++i)
      largest = std::max(largest, std::fabs(values[i]));
    const float scale = largest / static_cast<float>(most);
    for (std::size_t i = first; i < first + group; ++i)
      values[i] = std::nearbyint(values[i] / scale) * scale;
  }
  return values;
}

constexpr DType kTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

TEST(Levels, PalettesHoldEveryBit) {
  std::vector<float> values;
  for (std::size_t i = 0; i < 6000; ++i)
    values.push_back(std::vector<float>{0.0F, -0.0F, NAN, -65504, 6e-8F,
                                        -std::numeric_limits<float>::infinity()}[i * i % 7 % 6]);
  for (const DType dtype : kTypes) {
    const Made made(values, {60, 100}, dtype);
    const auto table = made.find();
    ASSERT_TRUE(table) << dtype_name(dtype);
    const auto coded = coded_levels(*table, made.entry, made.values);
    ASSERT_TRUE(coded);
    EXPECT_EQ(level_elements(*coded), made.bytes);
  }
}

TEST(Levels, FactorsOfRowsAndGroupsAreFound) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32})
    for (const std::size_t group : {512U, 128U, 32U})
      for (const int most : {1, 7}) {
        const Made made(quantized(64, 512, group, most), {64, 512}, dtype);
        for (const bool signs : {true, false}) {
          const auto table = made.find(signs);
          ASSERT_TRUE(table) << dtype_name(dtype) << group << most;
          const auto coded = coded_levels(*table, made.entry, made.values);
          ASSERT_TRUE(coded);
          if (signs) {
            EXPECT_EQ(level_elements(*coded), made.bytes);
          }
        }
      }
}

/// Scales of groups that are half floats, as GGUF, GPTQ and AWQ have them.
TEST(Levels, FactorsThatAreHalvesTakeFewBits) {
  constexpr std::size_t kGroup = 32, kGroups = 16'384;
  std::vector<float> values = normals(kGroup * kGroups, 23);
  for (std::size_t first = 0; first < values.size(); first += kGroup) {
    float largest = 0;
    for (std::size_t i = first; i < first + kGroup; ++i)
      largest = std::max(largest, std::fabs(values[i]));
    std::vector<float> scale(1);
    floats_of(elements_of(std::vector<float>{largest / 7}, DType::kF16), DType::kF16, scale);
    for (std::size_t i = first; i < first + kGroup; ++i)
      values[i] = std::nearbyint(values[i] / scale[0]) * scale[0];
  }
  const Made made(values, {512, kGroup * kGroups / 512}, DType::kF32);
  const auto table = made.find(/*zero_signs=*/false);
  ASSERT_TRUE(table);
  ASSERT_EQ(table->form.block_cols, static_cast<std::int64_t>(kGroup));
  const auto coded = coded_levels(*table, made.entry, made.values);
  ASSERT_TRUE(coded);
  CodedValues integers = *coded;
  integers.levels = {};
  integers.level_table.clear();
  for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
    const double both = static_cast<double>(encode_section(*coded, profile).size()),
                 alone = static_cast<double>(encode_section(integers, profile).size());
    // Ten bits of a mantissa, and about three of an exponent.
    EXPECT_LT(8 * (both - alone) / kGroups, 14.5);
  }
}

TEST(Levels, OfNoScaleTakeTheirFrequencies) {
  // Levels whose frequency does not fall with their magnitude.
  const double shares[] = {1, 40, 3, 9, 30, 2, 50, 5};
  std::vector<double> bounds;
  double all = 0, bits = 0;
  for (const double share : shares) bounds.push_back(all += share);
  for (const double share : shares) bits -= share / all * std::log2(share / all);
  constexpr std::size_t kCount = 200'000;
  const RandomStream random(24, "levels");
  std::vector<float> values;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double at = random.bits(i) / 4294967296.0 * all;
    const auto level = std::upper_bound(bounds.begin(), bounds.end(), at) - bounds.begin();
    values.push_back(0.1f * static_cast<float>(level * level) - 2);
  }
  const Made made(values, {200, 1000}, DType::kF32);
  const auto table = made.find();
  ASSERT_TRUE(table);
  const auto coded = coded_levels(*table, made.entry, made.values);
  ASSERT_TRUE(coded);
  const CodedValues moved = in_order_of_frequency(*coded, *table);
  EXPECT_EQ(level_elements(moved), made.bytes);
  EXPECT_LT(static_cast<double>(encode_section(moved, CodecProfile::kSmall).size()),
            1.02 * bits / 8 * kCount);
}

TEST(Levels, FactorsOfColumnsAreFound) {
  std::vector<float> values = normals(64 * 48, 5);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::nearbyint(2 * values[i]) * (0.1F + 0.037F * static_cast<float>(i % 48));
  const Made made(values, {64, 48}, DType::kF32);
  const auto table = made.find();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->form.block_rows, 64);
  EXPECT_EQ(level_elements(*coded_levels(*table, made.entry, made.values)), made.bytes);
}

TEST(Levels, LearnedWeightsHaveNone) {
  for (const DType dtype : kTypes)
    EXPECT_FALSE(Made(normals(64 * 512, 6), {64, 512}, dtype).find()) << dtype_name(dtype);
}

TEST(Levels, ValuesThatAreHardlyRepeatedAreNoPalette) {
  for (const std::size_t times : {1u, 4u}) {
    std::vector<float> values = normals(192, 5);
    const std::vector<float> some = values;
    for (std::size_t i = 1; i < times; ++i) values.insert(values.end(), some.begin(), some.end());
    const Made made(values, {static_cast<std::int64_t>(values.size())}, DType::kF32);
    EXPECT_EQ(made.find().has_value(), times == 4) << times;
  }
}

TEST(Levels, OneOutlierIsALevel) {
  std::vector<float> values = normals(64 * 64, 7);
  for (float& value : values) value = value > 0.4F ? 0.25F : value < -0.4F ? -0.25F : 0.0F;
  values[777] = 1234.5F;
  const Made made(values, {64, 64}, DType::kF32);
  const auto table = made.find();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->form.palette, 4);
  EXPECT_LT(table->bits, 1.7 * 64 * 64);
}

TEST(Levels, RoundingMergesThemWhereTheStepIsCoarse) {
  const Made made(quantized(64, 512, 512, 7), {64, 512}, DType::kF32);
  const auto table = made.find(false);
  ASSERT_TRUE(table);
  const double fine = rounded_bits(*table, 0.01), coarse = rounded_bits(*table, 2);
  EXPECT_NEAR(fine, table->bits - 27 * 64, 1);
  EXPECT_LT(coarse, fine / 2);
}

TEST(Levels, LinesLeaveWhatRoundingLeaves) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    std::vector<float> values;
    for (int position = 0; position < 256; ++position)
      for (int k = 0; k < 32; ++k)
        values.push_back(
            static_cast<float>(std::cos(position * std::pow(10000.0, -k / 32.0) + 0.1)));
    const Made made(values, {256, 32}, dtype);
    const auto lines = predicted_lines(made.values, made.entry.shape, made.entry.dtype);
    ASSERT_TRUE(lines) << dtype_name(dtype);
    EXPECT_EQ(lines->positions, 256);
    const auto table = line_table(made.entry, made.values, *lines);
    ASSERT_TRUE(table);
    const auto coded = coded_levels(*table, made.entry, made.values);
    ASSERT_TRUE(coded) << dtype_name(dtype);
    EXPECT_EQ(level_elements(*coded), made.bytes);
  }
}

TEST(Factors, TheShortestOneIsTaken) {
  const std::vector<float> magnitudes{0.75F, 1.5F, 3.75F};
  EXPECT_EQ(common_factor(magnitudes, DType::kF32), 0.75F);
  EXPECT_EQ(multiple_of(3.75F, 0.75F), 5);
  const std::vector<float> none{0.7312F, 0.7313F, 0.9F};
  EXPECT_FALSE(common_factor(none, DType::kF32));
}

}  // namespace
}  // namespace gbcompress
