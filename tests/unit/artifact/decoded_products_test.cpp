#include "artifact/integers/decoded_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "artifact/read_many.h"
#include "artifact/sections/elements.h"
#include "base/random.h"
#include "gbcompress/artifact_writer.h"
#include "gbcompress/decode.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

/// Matrices of one stripe that others share, and of several; with steps of rows and without.
std::vector<std::byte> file_of_matrices() {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  const RandomStream noise(7, "decoded products");
  const auto add = [&](const char* name, DType dtype, std::int64_t rows, std::int64_t cols,
                       bool row_steps) {
    CodedValues values{.grid = {rows, cols, 0, true}, .step = -70};
    values.grid.lanes = true;
    for (std::int64_t i = 0; i < rows * cols; ++i)
      values.integers.push_back(static_cast<std::int32_t>(
          std::lrint(4 * noise.normal(static_cast<std::uint64_t>(i + rows)))));
    for (std::int64_t r = 0; row_steps && r < rows; ++r)
      values.row_steps.push_back(static_cast<std::int32_t>(r % 7) - 3);
    writer.add_coded(name, dtype, {rows, cols}, values);
  };
  add("small", DType::kF32, 40, 70, true);
  add("large", DType::kF32, 1300, 1700, true);
  add("brain", DType::kBF16, 33, 33, false);
  const std::vector<float> exact(6, 1.5f);
  writer.add_plain("exact", DType::kF32, {2, 3}, std::as_bytes(std::span(exact)));
  return writer.encode();
}

/// Values as float32, rounded to a type before.
std::vector<float> values_of(const ArtifactReader& reader, std::size_t tensor, DType dtype) {
  const std::vector<std::byte> own = decode_tensor(reader, tensor);
  const DType from = reader.tensors()[tensor].dtype;
  const std::size_t count = own.size() / static_cast<std::size_t>(dtype_bits(from) / 8);
  std::vector<float> values(count);
  floats_of(own, from, values);
  std::vector<std::byte> rounded(count * static_cast<std::size_t>(dtype_bits(dtype) / 8));
  put_elements(values, dtype, rounded);
  floats_of(rounded, dtype, values);
  return values;
}

TEST(DecodedProducts, AreThoseOfTheValues) {
  const auto reader = ArtifactReader::from_bytes(file_of_matrices(), "m");
  for (std::size_t i = 0; i < 3; ++i)
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const std::int64_t tokens : {1, 3, 4, 6}) {
        const auto& shape = reader.tensors()[i].shape;
        const std::int64_t rows = shape[0], cols = shape[1];
        ASSERT_TRUE(multiplies_decoded(reader, i, dtype));
        const std::vector<float> values = values_of(reader, i, dtype);
        const RandomStream noise(static_cast<std::uint64_t>(tokens), "tokens");
        std::vector<float> x;
        for (std::int64_t n = 0; n < tokens * cols; ++n)
          x.push_back(static_cast<float>(noise.normal(static_cast<std::uint64_t>(n))));
        std::vector<float> made(static_cast<std::size_t>(tokens * rows), 9), again = made;
        multiply_decoded(reader, i, dtype, x, tokens, made, 1);
        multiply_decoded(reader, i, dtype, x, tokens, again, 3);
        EXPECT_EQ(made, again);
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t r = 0; r < rows; ++r) {
            double sum = 0, size = 0;
            for (std::int64_t c = 0; c < cols; ++c) {
              const double term = double{x[static_cast<std::size_t>(t * cols + c)]} *
                                  double{values[static_cast<std::size_t>(r * cols + c)]};
              sum += term;
              size += std::fabs(term);
            }
            ASSERT_NEAR(made[static_cast<std::size_t>(t * rows + r)], sum, 1e-6 * size + 1e-30)
                << reader.tensors()[i].name << ", token " << t << ", row " << r;
          }
      }
}

TEST(DecodedProducts, OthersAreRefused) {
  std::vector<std::byte> bytes = file_of_matrices();
  const auto reader = ArtifactReader::from_bytes(bytes, "m");
  EXPECT_FALSE(multiplies_decoded(reader, 3, DType::kF32));
  EXPECT_FALSE(multiplies_decoded(reader, 0, DType::kF16));
  std::vector<float> x(70), to(40);
  EXPECT_EQ(code_of([&] { multiply_decoded(reader, 0, DType::kF32, x, 2, to, 1); }),
            Errc::kShapeMismatch);
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 64; ++i)
    bytes[i] ^= std::byte{0x5a};
  const auto damaged = ArtifactReader::from_bytes(bytes, "m", {}, DigestCheck::kNever);
  std::vector<float> wide(1700), scores(1300);
  EXPECT_EQ(code_of([&] { multiply_decoded(damaged, 1, DType::kF32, wide, 1, scores, 2); }),
            Errc::kCorrupt);
}

TEST(ReadMany, ReportsEachRequestOnce) {
  const auto reader = ArtifactReader::from_bytes(file_of_matrices(), "m");
  std::vector<std::vector<std::byte>> memory;
  std::vector<ReadRequest> requests;
  for (const std::size_t tensor : {1, 0, 3, 2}) {
    memory.emplace_back(decode_tensor(reader, tensor).size());
    requests.push_back({tensor, reader.tensors()[tensor].dtype, memory.back()});
  }
  std::mutex mutex;
  std::vector<int> done(requests.size());
  ReadProgress progress;
  progress.done = [&](std::size_t place) {
    const std::lock_guard lock(mutex);
    ++done[place];
    EXPECT_EQ(memory[place], decode_tensor(reader, requests[place].tensor));
  };
  read_many(reader, requests, {.threads = 3}, &progress);
  EXPECT_EQ(done, std::vector<int>(requests.size(), 1));
  progress.stop = true;
  read_many(reader, requests, {.threads = 3}, &progress);
  EXPECT_EQ(done, std::vector<int>(requests.size(), 1));
}

}  // namespace
}  // namespace gbcompress
