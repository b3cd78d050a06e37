#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "artifact/integers/lanes_reader.h"
#include "artifact/read_many.h"
#include "artifact/sections/elements.h"
#include "base/file.h"
#include "base/fresh_memory.h"
#include "base/random.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/decode.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

/// Integers whose rows differ in scale.
CodedValues scaled_rows(std::int64_t rows, std::int64_t cols, bool dependent, bool row_steps,
                        std::uint64_t seed) {
  CodedValues values{.grid = {rows, cols, 0, dependent}, .step = -70};
  values.grid.lanes = dependent;
  const RandomStream noise(seed, "direct");
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double scale = 0.5 + static_cast<double>(i / cols % 9);
    values.integers.push_back(
        static_cast<std::int32_t>(std::lrint(scale * noise.normal(static_cast<std::uint64_t>(i)))));
  }
  for (std::int64_t r = 0; row_steps && r < rows; ++r)
    values.row_steps.push_back(static_cast<std::int32_t>(r % 7) - 3);
  return values;
}

/// Tensors of several stripes and several in one, of every type, and others between them.
ArtifactWriter several() {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  const auto add = [&](const char* name, DType dtype, std::int64_t rows, std::int64_t cols,
                       bool dependent, bool row_steps) {
    writer.add_coded(
        name, dtype, {rows, cols},
        scaled_rows(rows, cols, dependent, row_steps, static_cast<std::uint64_t>(rows)));
  };
  add("a", DType::kF32, 40, 70, true, true);
  add("large", DType::kF32, 1300, 1700, true, true);
  add("b", DType::kBF16, 30, 64, false, false);
  writer.add_coded("bias", DType::kF32, {90}, scaled_rows(1, 90, true, true, 3));
  const std::vector<float> exact = {1, 2, 3};
  writer.add_plain("exact", DType::kF32, {3}, std::as_bytes(std::span(exact)));
  add("half", DType::kF16, 50, 9, true, true);
  add("double", DType::kF64, 20, 100, true, false);
  CodedValues whole{.grid = {4, 5, 0}, .integers = std::vector<std::int32_t>(20, -3)};
  writer.add_coded("whole", DType::kI8, {4, 5}, whole);
  writer.add_tied("tied", "large");
  add("brain", DType::kBF16, 1100, 1000, true, false);
  return writer;
}

TEST(Direct, NumbersAreThoseOfTheIntegers) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  ASSERT_GT(reader.lanes()->parts(1).size(), 1u);
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    if (tensor.kind != TensorKind::kQuantized || !is_real(tensor.dtype)) continue;
    const auto expected = elements_of(coded_floats(reader.coded(i)), tensor.dtype);
    for (const int threads : {1, 3})
      ASSERT_EQ(decode_tensor(reader, i, {.threads = threads}), expected) << tensor.name;
  }
}

TEST(Direct, StepsOfRowsAreDecodedOnce) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  const std::vector<std::byte> whole = decode_tensor(reader, 1);
  const auto kept = reader.lanes()->row_scales(1, [] {
    ADD_FAILURE() << "decoding the tensor has made them";
    return std::vector<float>();
  });
  EXPECT_EQ(kept->size(), 1300u);
  for (const std::int64_t first : {0, 1, 700'000, 1'048'000}) {  // within, and beyond a stripe
    std::vector<std::byte> part(1'100'000 * 4);
    read_slice(reader, 1, DType::kF32, first, part, {.threads = 2});
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4 * first)) << first;
  }
  EXPECT_EQ(kept.use_count(), 2);  // this one and the reader's
}

TEST(Direct, ReadsIntoMemoryInEveryType) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    const std::vector<std::byte> own = decode_tensor(reader, i);
    std::vector<std::byte> read(own.size());
    read_into(reader, i, tensor.dtype, read);
    ASSERT_EQ(read, own) << tensor.name;
    if (!is_real(tensor.dtype)) continue;
    std::vector<float> floats(own.size() / static_cast<std::size_t>(dtype_bits(tensor.dtype) / 8));
    floats_of(own, tensor.dtype, floats);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto expected = elements_of(floats, dtype);
      read.assign(expected.size(), std::byte{9});
      read_into(reader, i, dtype, read, {.threads = 2});
      ASSERT_EQ(read, expected) << tensor.name << " as " << dtype_name(dtype);
    }
  }
}

TEST(Direct, WrongBuffersAreRefused) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  std::vector<std::byte> bytes(4 * 40 * 70 + 8);
  const auto code = [&](std::size_t tensor, DType dtype, std::size_t first, std::size_t size) {
    return code_of(
        [&] { read_into(reader, tensor, dtype, std::span(bytes).subspan(first, size)); });
  };
  EXPECT_EQ(code(0, DType::kF32, 0, 4 * 40 * 70), Errc::kFailure);  // that is right
  EXPECT_EQ(code(0, DType::kF32, 0, 4 * 40 * 70 - 4), Errc::kShapeMismatch);
  EXPECT_EQ(code(0, DType::kF32, 0, 4 * 40 * 70 + 4), Errc::kShapeMismatch);
  EXPECT_EQ(code(0, DType::kBF16, 0, 4 * 40 * 70), Errc::kShapeMismatch);
  EXPECT_EQ(code(0, DType::kF32, 2, 4 * 40 * 70), Errc::kUsage);
  EXPECT_EQ(code(0, DType::kBF16, 1, 2 * 40 * 70), Errc::kUsage);
  EXPECT_EQ(code(0, DType::kF64, 0, bytes.size()), Errc::kUsage);
  EXPECT_EQ(code(7, DType::kF32, 0, 80), Errc::kUsage);
  EXPECT_EQ(code(99, DType::kF32, 0, 80), Errc::kUsage);
}

TEST(Direct, ReadsManyAsOneAfterAnother) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  std::vector<std::vector<std::byte>> expected;
  std::vector<FreshMemory> memory;
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    for (const DType dtype : {tensor.dtype, DType::kF32, DType::kBF16}) {
      if (dtype != tensor.dtype && !is_real(tensor.dtype)) continue;
      auto& own = expected.emplace_back(
          static_cast<std::size_t>(tensor_elements(tensor.shape) * dtype_bits(dtype) / 8));
      read_into(reader, i, dtype, own, {.threads = 1});
      memory.emplace_back(own.size());
      requests.push_back({i, dtype, {memory.back().data(), memory.back().size()}});
    }
  }
  for (const int threads : {1, 3}) {
    for (const ReadRequest& request : requests) std::ranges::fill(request.bytes, std::byte{9});
    read_many(reader, requests, {.threads = threads});
    for (std::size_t i = 0; i < requests.size(); ++i)
      ASSERT_TRUE(std::ranges::equal(requests[i].bytes, expected[i])) << i;
  }
  // A request that cannot be met leaves all memory as it was.
  for (const ReadRequest& request : requests) std::ranges::fill(request.bytes, std::byte{9});
  requests.back().bytes = requests.back().bytes.first(requests.back().bytes.size() - 2);
  EXPECT_EQ(code_of([&] { read_many(reader, requests); }), Errc::kShapeMismatch);
  for (const ReadRequest& request : requests)
    EXPECT_TRUE(std::ranges::all_of(request.bytes, [](std::byte b) { return b == std::byte{9}; }));
}

TEST(Direct, AFileOfStripesExpandsToTheSameBytesOnAnyThreads) {
  const auto reader = ArtifactReader::from_bytes(several().encode(), "several");
  const testing::TempDir folder;
  for (const int threads : {1, 2, 4}) {
    const auto path = folder / (std::to_string(threads) + ".safetensors");
    decode_to_file(reader, path, false, {.threads = threads});
    const auto file = SafetensorsFile::open(path);
    ASSERT_EQ(file.tensors().size(), reader.tensors().size());
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      for (const TensorEntry& entry : file.tensors())
        if (entry.name == reader.tensors()[i].name) {
          ASSERT_TRUE(std::ranges::equal(entry.bytes, decode_tensor(reader, i))) << entry.name;
        }
  }
}

/// The profile that a file gets by itself.
TEST(Direct, LargeFilesHaveTheProfileThatTheirIntegersWereChosenFor) {
  const auto profile = [](IntegerGrid grid) {
    ArtifactWriter writer("", "");
    CodedValues values{.grid = grid};
    values.integers.resize(static_cast<std::size_t>(grid.size()));
    values.integers[3] = 1;
    writer.add_coded("a", DType::kF32, {grid.rows, grid.cols}, values);
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "large");
    EXPECT_EQ(reader.coded(0).integers, values.integers);
    return reader.profile();
  };
  IntegerGrid grid{2001, 2000, 0};
  EXPECT_EQ(profile(grid), CodecProfile::kLanes);
  grid.dependent = true;
  EXPECT_EQ(profile(grid), CodecProfile::kSmall) << "states in order";
  grid.lanes = true;
  EXPECT_EQ(profile(grid), CodecProfile::kLanes);
  EXPECT_EQ(code_of([&] { profile({1, kMaxSmallColumns + 1, 0, true}); }), Errc::kUsage);
}

TEST(Direct, DependentIntegersInAnotherOrderAreNotWritten) {
  CodedValues values = scaled_rows(4, 4, true, false, 1);
  values.grid.lanes = false;
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  writer.add_coded("w", DType::kF32, {4, 4}, values);
  EXPECT_EQ(code_of([&] { writer.encode(); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
