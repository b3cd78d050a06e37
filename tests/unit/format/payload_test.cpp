#include "format/payload.h"

#include <cmath>
#include <limits>

#include "base/float16.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::Bytes;

Bytes as_bytes(const std::vector<int>& integers) {
  Bytes bytes;
  for (const int each : integers) bytes.push_back(static_cast<std::byte>(each));
  return bytes;
}

TEST(Payload, IntegersComeBackFromTheirRealValues) {
  std::vector<int> all;
  for (int i = 0; i < 256; ++i) all.push_back(i);
  for (const DType dtype : {DType::kI8, DType::kU8})
    for (const std::int32_t zero : {0, 100}) {
      const Affine affine{dtype, 4, {0.0123F, 3e-20F, 7e10F}, {zero, zero, 0}};
      const auto values = from_affine(as_bytes(all), affine);
      ASSERT_TRUE(values);
      EXPECT_EQ(to_affine(*values, affine), as_bytes(all));
    }
  const Affine affine{DType::kI8, 2, {0.5F, 2}, {0, -3}};
  EXPECT_EQ(*from_affine(as_bytes({4, -4, 1, -3, 2}), affine),
            (std::vector<float>{2, -2, 8, 0, 1}));
}

TEST(Payload, ValuesAreRoundedToEvenAndBounded) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.5F,   1.5F,  2.5F,      -0.5F,    -1.5F, 0.49999997F,
                                     126.6F, 1e30F, -infinity, infinity, NAN,   -128.4F};
  EXPECT_EQ(to_affine(values, {DType::kI8, 1, {1}, {0}}),
            as_bytes({0, 2, 2, 0, -2, 0, 127, 127, -128, 127, 0, -128}));
  EXPECT_EQ(to_affine(values, {DType::kU8, 1, {1}, {128}}),
            as_bytes({128, 130, 130, 128, 126, 128, 255, 255, 0, 255, 128, 0}));
}

TEST(Payload, RealValuesThatDoNotGiveTheIntegersAreNotTaken) {
  // The product overflows.
  EXPECT_FALSE(from_affine(as_bytes({127, 126}), {DType::kI8, 1, {3e38F}, {0}}));
}

TEST(Payload, BlocksOfQ8HaveTheScaleOfTheirLargestValue) {
  std::vector<float> values(2 * kQ8Elements);
  for (std::size_t i = 0; i < kQ8Elements; ++i) values[i] = 0.01F * static_cast<float>(i) - 0.2F;
  const Bytes blocks = to_q8_0(values);
  ASSERT_EQ(blocks.size(), 2 * kQ8Bytes);
  const auto half = static_cast<std::uint16_t>(std::to_integer<int>(blocks[0]) |
                                               std::to_integer<int>(blocks[1]) << 8);
  EXPECT_EQ(half, float_to_half(0.2F / 127));
  EXPECT_EQ(std::to_integer<std::int8_t>(blocks[2]), -127);
  for (std::size_t i = kQ8Bytes; i < blocks.size(); ++i) EXPECT_EQ(blocks[i], std::byte{0});
  const auto back = from_q8_0(blocks);
  ASSERT_TRUE(back);
  for (std::size_t i = 0; i < kQ8Elements; ++i)
    EXPECT_NEAR((*back)[i], values[i], 0.52F * half_to_float(half)) << i;
  EXPECT_EQ(to_q8_0(*back), blocks);
  Bytes infinite = blocks;
  infinite[0] = std::byte{0};
  infinite[1] = std::byte{0x7C};
  EXPECT_FALSE(from_q8_0(infinite));
  // Larger than a float16 can scale, and no numbers.
  std::vector<float> wild(kQ8Elements, 1e38F);
  wild[1] = NAN;
  const auto bounded = from_q8_0(to_q8_0(wild));
  ASSERT_TRUE(bounded);
  EXPECT_EQ((*bounded)[0], 127 * 65504.0F);
  EXPECT_EQ((*bounded)[1], 0);
}

TEST(Payload, HolesOfIntegersComeBackFromAContainer) {
  const Affine affine{DType::kU8, 3, {0.25F, 2}, {128, 3}};
  Hole first{1, 2, PayloadEncoding::kAffine, {}, affine};
  const Container container{
      "onnx", {{"", {first, {0, 1, PayloadEncoding::kQ8_0, {}}}, testing::to_bytes("abcd")}}};
  const auto bytes = container.encode();
  EXPECT_EQ(bytes[0], std::byte{2});
  const Container back = Container::decode(bytes, 2, "x");
  EXPECT_EQ(back.encode(), bytes);
  EXPECT_EQ(back.files[0].holes[0].affine, affine);
  Bytes older = bytes;
  older[0] = std::byte{1};
  GBC_EXPECT_ERROR(Container::decode(older, 2, "x"), Errc::kCorrupt, "an encoding is 3");
  first.encoding = PayloadEncoding::kBytes;
  const Container plain{"onnx", {{"", {first}, testing::to_bytes("abcd")}}};
  EXPECT_EQ(plain.encode()[0], std::byte{1});
  for (const float scale : {0.0F, -1.0F, NAN, std::numeric_limits<float>::infinity()}) {
    Container bad = container;
    bad.files[0].holes[0].affine.scales[1] = scale;
    GBC_EXPECT_ERROR(Container::decode(bad.encode(), 2, "x"), Errc::kCorrupt,
                     "a scale is not a number above 0");
  }
  GBC_EXPECT_ERROR(payload_of(container.files[0].holes[0], {}, DType::kF16, "x"), Errc::kCorrupt,
                   "a hole of integers has a tensor of another type");
  GBC_EXPECT_ERROR(payload_of(container.files[0].holes[1], Bytes(64), DType::kF32, "x"),
                   Errc::kCorrupt, "a hole of integers");
}

}  // namespace
}  // namespace gbcompress
