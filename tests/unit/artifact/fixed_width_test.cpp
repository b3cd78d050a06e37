#include "artifact/integers/fixed_width.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "artifact/sections/elements.h"
#include "base/random.h"
#include "codec/lanes/decode_block.h"
#include "gbcompress/artifact_writer.h"
#include "gbcompress/decode.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

std::vector<float> normal_units(std::int64_t count, double deviation, std::uint64_t seed) {
  const RandomStream noise(seed, "fixed width");
  std::vector<float> units;
  for (std::int64_t i = 0; i < count; ++i)
    units.push_back(
        static_cast<float>(std::lrint(deviation * noise.normal(static_cast<std::uint64_t>(i)))));
  return units;
}

std::vector<float> read_all(const FixedWidthMatrix& matrix, int threads = 1) {
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < matrix.rows(); ++r) rows.push_back(r);
  std::vector<float> values(static_cast<std::size_t>(matrix.rows() * matrix.cols()), 9);
  matrix.read(rows, std::span(values), threads);
  return values;
}

/// Products in double, and the sums of the magnitudes of their terms.
void expect_products(const FixedWidthMatrix& matrix, std::int64_t tokens, std::uint64_t seed) {
  const std::vector<float> values = read_all(matrix);
  const RandomStream noise(seed, "tokens");
  std::vector<float> x;
  for (std::int64_t i = 0; i < tokens * matrix.cols(); ++i)
    x.push_back(static_cast<float>(noise.normal(static_cast<std::uint64_t>(i))));
  std::vector<float> made(static_cast<std::size_t>(tokens * matrix.rows()), 9);
  for (const int threads : {1, 3}) {
    matrix.multiply(x, tokens, made, threads);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t r = 0; r < matrix.rows(); ++r) {
        double sum = 0, size = 0;
        for (std::int64_t c = 0; c < matrix.cols(); ++c) {
          const double term = double{x[static_cast<std::size_t>(t * matrix.cols() + c)]} *
                              double{values[static_cast<std::size_t>(r * matrix.cols() + c)]};
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(made[static_cast<std::size_t>(t * matrix.rows() + r)], sum, 1e-6 * size + 1e-30)
            << matrix.rows() << " x " << matrix.cols() << ", token " << t << ", row " << r;
      }
  }
}

TEST(FixedWidth, ProductsAreThoseOfTheValues) {
  const std::int64_t widths[] = {1, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 255, 300, 1000};
  std::uint64_t seed = 0;
  for (const std::int64_t cols : widths)
    for (const double deviation : {1.2, 3.5, 7.5, 20.0}) {
      const std::int64_t rows = 1 + static_cast<std::int64_t>(seed * 7 % 23);
      std::vector<float> scales(seed % 2 ? 1 : static_cast<std::size_t>(rows));
      for (std::size_t r = 0; r < scales.size(); ++r) scales[r] = 0.01f * static_cast<float>(r + 1);
      const FixedWidthMatrix matrix(normal_units(rows * cols, deviation, ++seed), rows, scales);
      expect_products(matrix, 1 + static_cast<std::int64_t>(seed % 8), seed);
    }
}

TEST(FixedWidth, WidthFollowsFromTheIntegers) {
  const auto bits_of = [](double deviation) {
    return FixedWidthMatrix(normal_units(64 * 256, deviation, 1), 64, {1}).bits();
  };
  EXPECT_EQ(bits_of(1.2), 4);
  EXPECT_EQ(bits_of(3.5), 5);
  EXPECT_EQ(bits_of(8), 6);
  EXPECT_EQ(bits_of(50), 8);
}

TEST(FixedWidth, ValuesAreExactWithIntegersBeyondTheWidth) {
  for (const double deviation : {1.0, 3.5, 8.0, 1000.0}) {
    std::vector<float> units = normal_units(20 * 150, deviation, 4);
    units[7] = 100'000, units[149] = -100'000, units[20 * 150 - 1] = 33, units[150] = -32;
    const FixedWidthMatrix matrix(units, 20, {0.25f});
    std::vector<float> expected;
    for (const float unit : units) expected.push_back(unit * 0.25f);
    EXPECT_EQ(read_all(matrix, 2), expected);
    expect_products(matrix, 5, 9);
  }
}

TEST(FixedWidth, RowsAreRoundedToNearestEven) {
  const FixedWidthMatrix matrix(normal_units(20 * 150, 300, 5), 20, {0.0123f});
  const std::vector<std::int64_t> rows = {3, 19, 0};
  std::vector<float> wide(rows.size() * 150);
  std::vector<codec::lanes::Bfloat16> brain(wide.size());
  std::vector<codec::lanes::Float16> half(wide.size());
  matrix.read(rows, std::span(wide), 2);
  matrix.read(rows, std::span(brain), 2);
  matrix.read(rows, std::span(half), 2);
  const auto equal = [&](const void* made, DType dtype) {
    std::vector<std::byte> expected(wide.size() * 2);
    put_elements(wide, dtype, expected);
    EXPECT_EQ(std::memcmp(made, expected.data(), expected.size()), 0);
  };
  equal(brain.data(), DType::kBF16);
  equal(half.data(), DType::kF16);
}

/// Tensors of several stripes and of one that is shared, in both profiles.
TEST(FixedWidth, ReadsFiles) {
  for (const CodecProfile profile : {CodecProfile::kLanes, CodecProfile::kSmall}) {
    ArtifactWriter writer("", "");
    writer.set_profile(profile);
    const auto add = [&](const char* name, DType dtype, std::int64_t rows, std::int64_t cols,
                         bool dependent, bool row_steps) {
      CodedValues values{.grid = {rows, cols, 0, dependent}, .step = -70};
      values.grid.lanes = dependent && profile == CodecProfile::kLanes;
      for (const float unit : normal_units(rows * cols, 4, static_cast<std::uint64_t>(rows)))
        values.integers.push_back(static_cast<std::int32_t>(unit));
      values.integers[3] = 500;
      for (std::int64_t r = 0; row_steps && r < rows; ++r)
        values.row_steps.push_back(static_cast<std::int32_t>(r % 7) - 3);
      writer.add_coded(name, dtype, {rows, cols}, values);
    };
    const bool lanes = profile == CodecProfile::kLanes;
    add("small", DType::kF32, 40, 70, lanes, true);
    add("large", DType::kF32, lanes ? 1300 : 130, 1700, lanes, true);
    add("plain", DType::kF32, 30, 64, false, false);
    add("brain", DType::kBF16, 33, 40, false, true);
    writer.add_coded("vector", DType::kF32, {90},
                     CodedValues{.grid = {1, 90, 0}, .integers = std::vector<std::int32_t>(90, 2)});
    const std::vector<float> exact(6, 1.5f);
    writer.add_plain("exact", DType::kF32, {2, 3}, std::as_bytes(std::span(exact)));
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "m");
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
      const ArtifactTensor& tensor = reader.tensors()[i];
      const bool fits = tensor.name != "vector" && tensor.name != "exact";
      ASSERT_EQ(FixedWidthMatrix::fits(reader, i), fits) << tensor.name;
      if (!fits) continue;
      const FixedWidthMatrix matrix(reader, i, 2);
      EXPECT_EQ(elements_of(read_all(matrix), tensor.dtype), decode_tensor(reader, i))
          << tensor.name;
      expect_products(matrix, 2, i);
    }
  }
}

/// Parts of a tensor's first dimension may have several rows with steps of their own.
TEST(FixedWidth, RowsOfAStackHaveStepsOfTheirOwn) {
  ArtifactWriter writer("", "");
  const auto add = [&](const char* name, const IntegerGrid& grid,
                       const std::vector<std::int64_t>& shape) {
    CodedValues values{.grid = grid, .step = -70};
    for (const float unit : normal_units(grid.size(), 4, 3))
      values.integers.push_back(static_cast<std::int32_t>(unit));
    for (std::int64_t r = 0; r < grid.rows; ++r)
      values.row_steps.push_back(static_cast<std::int32_t>(r % 50) - 20);
    writer.add_coded(name, DType::kF32, shape, values);
  };
  add("experts", {4 * 30, 20, 0}, {4, 30, 20});
  add("table", {17, 64, 0}, {1, 17, 64});
  add("halves", {2 * 12, 16, 0}, {12, 32});
  add("columns", {3, 32, 0}, {12, 8});  // rows of the grid are no parts of the tensor's
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "m");
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    ASSERT_EQ(FixedWidthMatrix::fits(reader, i), tensor.name != "columns") << tensor.name;
    if (tensor.name == "columns") continue;
    const FixedWidthMatrix matrix(reader, i, 1);
    EXPECT_EQ(matrix.rows(), tensor.grid.rows);
    EXPECT_EQ(elements_of(read_all(matrix), tensor.dtype), decode_tensor(reader, i)) << tensor.name;
    expect_products(matrix, 2, i);
  }
}

TEST(FixedWidth, DamagedFilesAreRefused) {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  CodedValues values{.grid = {200, 300, 0, true}, .step = -70};
  values.grid.lanes = true;
  for (const float unit : normal_units(200 * 300, 4, 1))
    values.integers.push_back(static_cast<std::int32_t>(unit));
  writer.add_coded("weight", DType::kF32, {200, 300}, values);
  std::vector<std::byte> bytes = writer.encode();
  for (std::size_t i = bytes.size() / 2; i < bytes.size() / 2 + 64; ++i)
    bytes[i] ^= std::byte{0x5a};
  const auto reader = ArtifactReader::from_bytes(bytes, "m", {}, DigestCheck::kNever);
  EXPECT_EQ(code_of([&] { FixedWidthMatrix(reader, 0, 1); }), Errc::kCorrupt);
}

}  // namespace
}  // namespace gbcompress
