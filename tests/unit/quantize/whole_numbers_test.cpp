#include "quantize/whole_numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace gbcompress {
namespace {

struct Held {
  std::vector<std::byte> bytes;
  TensorEntry entry;
};

/// A tensor of `bytes` made by make(i).
template <typename Make>
Held tensor(DType dtype, std::vector<std::int64_t> shape, std::size_t bytes, Make&& make) {
  Held held;
  for (std::uint64_t i = 0; i < bytes; ++i) held.bytes.push_back(static_cast<std::byte>(make(i)));
  held.entry = {"w", dtype, std::move(shape), held.bytes};
  return held;
}

TEST(WholeNumberForms, Int8WeightsAreWide) {
  const RandomStream noise(1, "forms");
  const Held held = tensor(DType::kI8, {64, 100}, 6400, [&](std::uint64_t i) {
    return std::clamp(static_cast<int>(std::lrint(40 * noise.normal(i))), -127, 127);
  });
  const auto small = whole_numbers(held.entry, CodecProfile::kSmall);
  ASSERT_TRUE(small);
  EXPECT_TRUE(small->grid.wide);
  EXPECT_FALSE(small->nibbles);
  EXPECT_EQ(coded_elements(*small, DType::kI8), held.bytes);
  const auto lanes = whole_numbers(held.entry, CodecProfile::kLanes);
  ASSERT_TRUE(lanes);
  EXPECT_FALSE(lanes->grid.wide);
  EXPECT_EQ(coded_elements(*lanes, DType::kI8), held.bytes);
}

TEST(WholeNumberForms, SmallNumbersStayAsTheyAre) {
  const RandomStream noise(2, "forms");
  const Held held = tensor(DType::kI8, {50, 80}, 4000, [&](std::uint64_t i) {
    return static_cast<int>(std::lrint(0.6f * noise.normal(i)));
  });
  const auto values = whole_numbers(held.entry, CodecProfile::kSmall);
  ASSERT_TRUE(values);
  EXPECT_FALSE(values->grid.wide);
  EXPECT_FALSE(values->nibbles);
}

TEST(WholeNumberForms, PackedFourBitWeightsAreNibbles) {
  const RandomStream noise(3, "forms");
  const auto nibble = [&](std::uint64_t i) {
    return std::clamp(static_cast<int>(std::lrint(8 + 2 * noise.normal(i))), 0, 15);
  };
  for (const auto& [dtype, cols] : {std::pair{DType::kU8, 100}, {DType::kI32, 25}})
    for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
      const Held held = tensor(dtype, {60, cols}, 6000, [&](std::uint64_t i) {
        return nibble(2 * i) | nibble(2 * i + 1) << 4;
      });
      const auto values = whole_numbers(held.entry, profile);
      ASSERT_TRUE(values);
      EXPECT_TRUE(values->nibbles) << dtype_name(dtype);
      EXPECT_EQ(coded_elements(*values, dtype), held.bytes);
      EXPECT_LT(coded_bytes(*values, profile), 0.8 * 6000);  // 3.05 bits a nibble
    }
}

TEST(WholeNumberForms, ThereAreNoneOfFloats) {
  const Held held = tensor(DType::kF32, {5}, 20, [](std::uint64_t) { return 1; });
  EXPECT_FALSE(whole_numbers(held.entry, CodecProfile::kSmall));
}

}  // namespace
}  // namespace gbcompress
