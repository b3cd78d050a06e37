// Profile small for some tensors beside others in stripes.
#include <gtest/gtest.h>

#include <cmath>

#include "artifact/integers/lanes_reader.h"
#include "base/random.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/decode.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

CodedValues values_of(std::int64_t rows, std::int64_t cols, CodecProfile profile, bool row_steps) {
  CodedValues values{.grid = {rows, cols, 0, true}, .step = -60};
  values.grid.lanes = profile == CodecProfile::kLanes;
  const RandomStream noise(static_cast<std::uint64_t>(rows), "mixed");
  for (std::int64_t i = 0; i < rows * cols; ++i)
    values.integers.push_back(
        static_cast<std::int32_t>(std::lrint(2 * noise.normal(static_cast<std::uint64_t>(i)))));
  for (std::int64_t r = 0; row_steps && r < rows; ++r)
    values.row_steps.push_back(static_cast<std::int32_t>(r % 5));
  return values;
}

struct Given {
  const char* name;
  CodecProfile profile;
  CodedValues values;
};

std::vector<Given> given() {
  const CodecProfile small = CodecProfile::kSmall, lanes = CodecProfile::kLanes;
  return {{"a", small, values_of(30, 50, small, true)},
          {"b", lanes, values_of(1200, 1000, lanes, true)},
          {"c", small, values_of(31, 64, small, false)},
          {"d", lanes, values_of(32, 9, lanes, false)}};
}

void add(ArtifactWriter& writer, const Given& each) {
  writer.add_coded_section(each.name, DType::kF32, {each.values.grid.rows, each.values.grid.cols},
                           each.values, encode_section(each.values, each.profile), each.profile);
}

ArtifactWriter mixed() {
  ArtifactWriter writer("", "");
  for (const Given& each : given()) add(writer, each);
  return writer;
}

TEST(Mixed, EveryTensorHasItsProfile) {
  const auto reader = ArtifactReader::from_bytes(mixed().encode(), "mixed");
  EXPECT_EQ(reader.profile(), CodecProfile::kLanes);
  const std::vector<Given> expected = given();
  const std::vector<double> bits = reader.tensor_bits();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reader.tensors()[i].profile, expected[i].profile) << i;
    const CodedValues read = reader.coded(i);
    EXPECT_EQ(read.integers, expected[i].values.integers) << i;
    EXPECT_EQ(read.row_steps, expected[i].values.row_steps) << i;
    EXPECT_EQ(read.grid.lanes, expected[i].values.grid.lanes) << i;
    if (expected[i].profile != CodecProfile::kSmall) continue;
    EXPECT_EQ(bits[i], 8.0 * static_cast<double>(reader.tensors()[i].stored_bytes));
  }
  reader.verify();
}

TEST(Mixed, ExpandsAndReadsIntoMemory) {
  const testing::TempDir folder;
  const std::vector<Given> expected = given();
  for (const int threads : {1, 3}) {
    const auto reader =
        ArtifactReader::from_bytes(mixed().encode(), "mixed", {}, DigestCheck::kWhileDecoding);
    decode_to_file(reader, folder / "m.safetensors", true, {.threads = threads});
    const auto file = SafetensorsFile::open(folder / "m.safetensors");
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::vector<float> floats = coded_floats(expected[i].values);
      std::vector<float> read(floats.size());
      read_into(reader, i, DType::kF32, std::as_writable_bytes(std::span(read)),
                {.threads = threads});
      EXPECT_EQ(read, floats) << i;
      for (const TensorEntry& entry : file.tensors()) {
        if (entry.name != expected[i].name) continue;
        EXPECT_TRUE(std::ranges::equal(entry.bytes, std::as_bytes(std::span(floats)))) << i;
      }
    }
  }
}

TEST(Mixed, ATensorChangesItsProfile) {
  ArtifactWriter writer = mixed();
  const CodedValues other = values_of(32, 9, CodecProfile::kSmall, false);
  writer.update_coded_section("d", other, encode_section(other, CodecProfile::kSmall),
                              CodecProfile::kSmall);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "mixed");
  EXPECT_EQ(reader.tensors()[3].profile, CodecProfile::kSmall);
  EXPECT_EQ(reader.coded(3).integers, other.integers);
}

TEST(Mixed, OtherSectionsAreNotWritten) {
  const CodedValues in_lanes = values_of(4, 5, CodecProfile::kLanes, false);
  const CodedValues in_order = values_of(4, 5, CodecProfile::kSmall, false);
  ArtifactWriter writer("", "");
  const auto code = [&](const CodedValues& values, CodecProfile profile) {
    return code_of([&] {
      writer.add_coded_section("w", DType::kF32, {4, 5}, values, {}, profile);
    });
  };
  EXPECT_EQ(code(in_lanes, CodecProfile::kSmall), Errc::kUsage);
  EXPECT_EQ(code(in_order, CodecProfile::kLanes), Errc::kUsage);
  CodedValues wide{.grid = {1, kMaxSmallColumns + 1, 0}};
  EXPECT_EQ(code_of([&] {
              writer.add_coded_section("v", DType::kF32, {kMaxSmallColumns + 1}, wide, {},
                                       CodecProfile::kSmall);
            }),
            Errc::kLimit);
  ArtifactWriter alone("", "");
  add(alone, given()[0]);
  EXPECT_EQ(code_of([&] { alone.encode(); }), Errc::kUsage) << "nothing in stripes";
}

TEST(Mixed, ThreadsChangeNoByte) {
  ArtifactWriter writer = mixed();
  writer.set_threads(1);
  const std::vector<std::byte> one = writer.encode();
  for (const int threads : {2, 5}) {
    ArtifactWriter again = mixed();
    again.set_threads(threads);
    EXPECT_EQ(again.encode(), one) << threads;
  }
}

}  // namespace
}  // namespace gbcompress
