#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "base/float16.h"
#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

/// Normal numbers of many sizes, a few of them 0.
std::vector<float> numbers(std::int64_t n, std::uint64_t seed, int octaves) {
  const RandomStream noise(seed, "short floats");
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const int octave = static_cast<int>(noise.bits(2 * at) % static_cast<std::uint32_t>(octaves));
    values.push_back(i % 17 == 5 ? 0 : std::ldexp(noise.normal(at), -octave));
  }
  return values;
}

TEST(ShortFloats, KeepARelativePrecisionForEachNumber) {
  for (const int bits : {1, 3, 7, 12, 16}) {
    const std::vector<float> values = numbers(400, static_cast<std::uint64_t>(bits), 9);
    const CodedValues coded = float_coded({1, 400, 0}, values, bits);
    const std::vector<float> back = coded_floats(coded);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = std::fabs(static_cast<double>(back[i]) - static_cast<double>(values[i]));
      const double size = std::fabs(static_cast<double>(values[i]));
      if (size == 0) {
        EXPECT_EQ(back[i], 0);
      } else if (size > std::ldexp(1.0, coded.step - kFloatOctaves)) {
        worst = std::max(worst, off / size);
      } else {
        EXPECT_LE(off, std::ldexp(0.5, coded.step - kFloatOctaves - bits));
      }
    }
    EXPECT_LE(worst, std::ldexp(1.0, -bits - 1)) << bits;
    EXPECT_GT(worst, std::ldexp(0.6, -bits - 1)) << bits << ": it could hardly be that good";
  }
}

TEST(ShortFloats, OfSevenBitsAreBfloat16WhereTheOctavesReach) {
  const std::vector<float> values = numbers(300, 3, 5);
  std::vector<float> brains(values.size());
  floats_of(elements_of(values, DType::kBF16), DType::kBF16, brains);
  // Random normals reach down further than twelve octaves now and then: those are left out here.
  const std::vector<float> back = coded_floats(float_coded({1, 300, 0}, values, 7));
  int compared = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::fabs(values[i]) > 0x1p-8f || values[i] == 0) {
      EXPECT_EQ(back[i], brains[i]) << i;
      ++compared;
    }
  EXPECT_GT(compared, 200);
}

TEST(ShortFloats, RoundIntoTheNextOctave) {
  const std::vector<float> values = {1.999f, -0.9999f, 0x1p-13f, 0x1.8p-40f};
  const CodedValues coded = float_coded({1, 4, 0}, values, 3);
  EXPECT_EQ(coded.step, 1);  // 1.999 becomes 2
  EXPECT_EQ(coded_floats(coded), (std::vector<float>{2, -1, 0x1p-13f, 0}));
}

TEST(ShortFloats, RefuseWhatIsNone) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& values :
       {std::vector<float>{0, 0}, {1, infinity}, {1, NAN}, {0x1p-140f, 0}, {0x1.fffffep127f, 0}})
    EXPECT_EQ(code_of([&] { float_coded({1, 2, 0}, values, 7); }), Errc::kUsage) << values[1];
  EXPECT_EQ(code_of([] { float_coded({1, 1, 0}, std::vector<float>{1}, 17); }), Errc::kUsage);
}

TEST(WholeNumbers, ComeBackInTheirTypeAndAreSmall) {
  std::vector<std::byte> bytes;
  const RandomStream noise(5, "whole");
  for (std::uint64_t i = 0; i < 5000; ++i)
    bytes.push_back(static_cast<std::byte>(std::lrint(8 * noise.normal(i))));
  CodedValues values{.grid = {50, 100, 0}};
  for (const std::byte byte : bytes) values.integers.push_back(static_cast<std::int8_t>(byte));
  for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
    ArtifactWriter writer("", "");
    writer.set_profile(profile);
    writer.add_coded("w", DType::kI8, {50, 100}, values);
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
    EXPECT_EQ(decode_tensor(reader, 0), bytes);
    // 5.05 bits are the entropy of such numbers; lanes have tables and 64 states.
    EXPECT_LT(reader.file_bytes(), 5000 * (profile == CodecProfile::kSmall ? 5.3 : 5.6) / 8);
  }
}

TEST(WholeNumbers, HaveNoStepsAndFitTheirType) {
  ArtifactWriter writer("", "");
  CodedValues values{.grid = {2, 2, 0}, .integers = {0, 1, 2, 300}};
  values.row_steps = {0, 1};
  EXPECT_EQ(code_of([&] { writer.add_coded("w", DType::kI32, {2, 2}, values); }), Errc::kUsage);
  values.row_steps.clear();
  EXPECT_EQ(code_of([&] { writer.add_coded("w", DType::kF8E4M3, {2, 2}, values); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { coded_elements(values, DType::kU8); }), Errc::kCorrupt);
  writer.add_coded("w", DType::kU8, {2, 2}, values);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
  EXPECT_EQ(code_of([&] { reader.verify(); }), Errc::kCorrupt);
}

TEST(Writer, SpoolsSectionsAndReplacesIntegers) {
  const testing::TempDir folder;
  CodedValues values{.grid = {20, 30, 0}, .step = -50};
  for (int i = 0; i < 600; ++i) values.integers.push_back(i % 7 - 3);
  CodedValues other = values;
  for (std::int32_t& k : other.integers) k *= 2;
  const std::vector<float> plain = {1, 2, 3};
  ArtifactWriter memory("", ""), spooled("", "");
  memory.set_profile(CodecProfile::kLanes);
  memory.add_plain("p", DType::kF32, {3}, std::as_bytes(std::span(plain)));
  memory.add_coded("w", DType::kF32, {20, 30}, other);
  spooled.spool_in(folder.path());
  spooled.add_plain("p", DType::kF32, {3}, std::as_bytes(std::span(plain)));
  spooled.add_coded_section("w", DType::kF32, {20, 30}, values, encode_section(values));
  const std::int64_t before = spooled.size();
  spooled.update_coded_section("w", other, encode_section(other));
  EXPECT_NE(spooled.size(), before);
  EXPECT_EQ(spooled.size(), memory.size());
  EXPECT_EQ(spooled.encode(), memory.encode());
  EXPECT_EQ(spooled.write(folder / "a.gbz", false), spooled.size());
  EXPECT_EQ(ArtifactReader::open(folder / "a.gbz").identity(),
            ArtifactReader::from_bytes(memory.encode(), "m").identity());
  EXPECT_EQ(code_of([&] { spooled.update_coded("p", values); }), Errc::kNotFound);
}

TEST(Exact, EveryHalfIsRead) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> read(halves.size());
  floats_of(std::as_bytes(std::span(halves)), DType::kF16, read);
  for (std::size_t i = 0; i < halves.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(read[i]),
              std::bit_cast<std::uint32_t>(half_to_float(halves[i])))
        << i;
}

}  // namespace
}  // namespace gbcompress
