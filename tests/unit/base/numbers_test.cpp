#include <limits>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "support/files.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Checked, MultipliesUpToTheLimit) {
  EXPECT_EQ(checked_mul(3'037'000'499, 3'037'000'499, "x"), 9'223'372'030'926'249'001);
  EXPECT_EQ(checked_mul(kMax, 1, "x"), kMax);
  EXPECT_EQ(checked_mul(0, kMax, "x"), 0);
  GBC_EXPECT_ERROR(checked_mul(3'037'000'500, 3'037'000'500, "the shape"), Errc::kLimit,
                   "the shape is too large");
  GBC_EXPECT_ERROR(checked_mul(-1, 1, "x"), Errc::kLimit, "too large");
  GBC_EXPECT_ERROR(checked_mul(1, -1, "x"), Errc::kLimit, "too large");
}

TEST(Checked, AddsUpToTheLimit) {
  EXPECT_EQ(checked_add(kMax - 1, 1, "x"), kMax);
  GBC_EXPECT_ERROR(checked_add(kMax, 1, "the sum"), Errc::kLimit, "the sum is too large");
  GBC_EXPECT_ERROR(checked_add(-1, 5, "x"), Errc::kLimit, "too large");
}

TEST(Checked, ElementsOfShapes) {
  EXPECT_EQ(checked_elements({}, "x"), 1);
  EXPECT_EQ(checked_elements(std::vector<std::int64_t>{2, 0, 3}, "x"), 0);
  EXPECT_EQ(checked_elements(std::vector<std::int64_t>{2, 5, 3}, "x"), 30);
  const std::vector<std::int64_t> wraps_to_zero{std::int64_t{1} << 32, std::int64_t{1} << 32};
  GBC_EXPECT_ERROR(checked_elements(wraps_to_zero, "x"), Errc::kLimit, "too large");
}

TEST(ByteReader, ReadsLittleEndianAndStopsAtTheEnd) {
  const auto bytes = testing::to_bytes(std::string("\x01\x02\x03\x04\x05\x06\x07", 7));
  ByteReader reader(bytes, "file");
  EXPECT_EQ(reader.read<std::uint16_t>(), 0x0201);
  EXPECT_EQ(reader.read<std::uint32_t>(), 0x06050403u);
  EXPECT_EQ(reader.position(), 6u);
  EXPECT_EQ(reader.remaining(), 1u);
  GBC_EXPECT_ERROR(reader.read<std::uint16_t>(), Errc::kTruncated, "file ends at byte 7");
  GBC_EXPECT_ERROR(reader.take(std::numeric_limits<std::uint64_t>::max()), Errc::kTruncated,
                   "file ends");
  EXPECT_EQ(reader.position(), 6u) << "a refused read moves nothing";
  EXPECT_EQ(reader.take(1)[0], std::byte{7});
  EXPECT_TRUE(reader.take(0).empty());
}

TEST(ByteReader, GivesBackWhatWasAppended) {
  testing::Bytes bytes;
  append_number(bytes, std::uint8_t{200});
  append_number(bytes, std::int64_t{-5});
  append_number(bytes, 1.5f);
  ByteReader reader(bytes, "x");
  EXPECT_EQ(reader.read<std::uint8_t>(), 200);
  EXPECT_EQ(reader.read<std::int64_t>(), -5);
  EXPECT_EQ(reader.read<float>(), 1.5f);
  EXPECT_EQ(reader.remaining(), 0u);
}

}  // namespace
}  // namespace gbcompress
