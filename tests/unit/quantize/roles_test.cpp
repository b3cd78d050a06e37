#include "quantize/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "quantize/packed.h"
#include "quantize/structure.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

WeightKind kind_of(const std::string& name, std::vector<std::int64_t> shape,
                   const std::vector<float>& values) {
  MadeTensors made;
  made.add(name, std::move(shape), values);
  return weight_kind(made.bundle.tensors[0], values);
}

std::vector<float> made_of(std::size_t count, const std::function<double(double)>& of) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(of(static_cast<double>(i))));
  return values;
}

TEST(Roles, TellWeightsFromEverythingElse) {
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, normals(600, 1)), WeightKind::kMatrix);
  EXPECT_EQ(kind_of("fc.bias", {300}, normals(300, 3)), WeightKind::kVector);
  EXPECT_EQ(kind_of("row", {1, 300}, normals(300, 4)), WeightKind::kVector);
  EXPECT_EQ(kind_of("tiny.weight", {7, 9}, normals(63, 5)), WeightKind::kVector);
  EXPECT_EQ(kind_of("norm.weight", {300}, std::vector<float>(300, 1)), WeightKind::kExact);
  EXPECT_EQ(kind_of("temperature", {}, {3}), WeightKind::kExact);
}

TEST(Roles, LinesArePreciseAtEveryLength) {
  for (const std::int64_t size : {16383, 16384, 50257}) {
    const auto values = normals(static_cast<std::size_t>(size), 2);
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{size}, {1, size}, {size, 1}, {1, size, 1, 1}})
      EXPECT_EQ(kind_of("head.bias", shape, values), WeightKind::kVector);
  }
  EXPECT_EQ(kind_of("w", {2, 8192}, normals(16384, 2)), WeightKind::kMatrix);
}

TEST(Roles, TablesByNameStayExactOnlyWhereTheyAreLines) {
  const auto values = normals(300, 6);
  for (const char* name : {"cent_table", "rope.inv_freq", "attn_mask", "a.window", "zero_point"})
    EXPECT_EQ(kind_of(name, {300}, values), WeightKind::kExact) << name;
  // Ends of words are not words.
  for (const char* name : {"unstable", "upscale", "footstep"})
    EXPECT_EQ(kind_of(name, {300}, values), WeightKind::kVector) << name;
  EXPECT_EQ(kind_of("lookup_table", {200, 200}, normals(40000, 7)), WeightKind::kMatrix);
  EXPECT_EQ(kind_of("q.scales", {200, 20}, normals(4000, 8)), WeightKind::kVector);
}

TEST(Roles, ValuesTellTables) {
  const auto table = [](std::vector<std::int64_t> shape, const std::vector<float>& values) {
    return kind_of("x", std::move(shape), values) == WeightKind::kExact;
  };
  auto cents = made_of(360, [](double i) { return 1997.38 + 20 * i; });
  EXPECT_TRUE(table({360}, cents));
  cents[100] += 2500;
  EXPECT_FALSE(table({360}, cents));
  EXPECT_TRUE(table({40}, made_of(40, [](double i) { return std::log1p(i) + 0.01 * std::sin(i); })))
      << "edges of buckets ascend";
  EXPECT_TRUE(table({31}, made_of(31,
                                  [](double i) {
                                    const double t = i - 15;
                                    return (t == 0 ? 0.4
                                                   : std::sin(0.4 * 3.14159 * t) / (3.14159 * t)) *
                                           (0.54 + 0.46 * std::cos(3.14159 * t / 16));
                                  })))
      << "a symmetric filter";
  EXPECT_TRUE(table(
      {512}, made_of(512, [](double i) { return 0.5 - 0.5 * std::cos(2 * 3.14159265 * i / 512); })))
      << "a window";
  EXPECT_TRUE(table({1, 64, 16},
                    made_of(1024,
                            [](double i) {
                              const double position = std::floor(i / 16), k = std::fmod(i, 16);
                              return std::cos(position * std::pow(100, -std::floor(k / 2) / 8) +
                                              (std::fmod(k, 2) > 0 ? 1.5707963 : 0));
                            })))
      << "sines and cosines of positions";
  EXPECT_TRUE(table({9, 20}, made_of(180, [](double i) { return std::fmod(7 * i, 11); })))
      << "small integers";
  EXPECT_TRUE(table(
      {12, 80}, made_of(960,
                        [](double i) {
                          const double row = std::floor(i / 80), at = std::fmod(i, 80);
                          return std::max(0.0, 1 - std::fabs(at - 6 * row - 5) / (3 + 0.1 * row));
                        })))
      << "a bank of filters";
}

TEST(Roles, LearnedValuesAreNoTables) {
  // Smooth embeddings of positions, with the noise that training leaves.
  const auto noise = normals(4096, 11);
  auto smooth =
      made_of(4096, [](double i) { return std::sin(std::floor(i / 32) / 9 + std::fmod(i, 32)); });
  for (std::size_t i = 0; i < smooth.size(); ++i) smooth[i] += 0.04F * noise[i];
  EXPECT_EQ(kind_of("wpe", {128, 32}, smooth), WeightKind::kMatrix);
  // Norms near 1, and pruned rows.
  auto norm = normals(768, 12);
  for (float& value : norm) value = 1 + 1e-3F * value;
  EXPECT_EQ(kind_of("n.weight", {768}, norm), WeightKind::kVector);
  auto pruned = normals(4096, 13);
  for (std::size_t i = 0; i < pruned.size(); ++i)
    if (i % 8 != 3) pruned[i] = 0;
  EXPECT_EQ(kind_of("fc.weight", {64, 64}, pruned), WeightKind::kMatrix);
}

TEST(Roles, NothingIsDoneToNumbersThatAreNone) {
  auto values = normals(600, 9);
  values[500] = -kInfinity;
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, values), WeightKind::kExact);
  values[500] = NAN;
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, values), WeightKind::kExact);
  EXPECT_EQ(weight_kind({"ids", DType::kI64, {600}, {}}, {}), WeightKind::kExact);
}

TEST(Roles, StateOfTrainingIsKnownByName) {
  const auto values = normals(600, 10);
  EXPECT_EQ(kind_of("optimizer.state.0.exp_avg", {30, 20}, values), WeightKind::kExact);
  EXPECT_EQ(kind_of("layers.0.weight", {30, 20}, values), WeightKind::kMatrix);
}

TEST(Roles, NotFiniteValuesAreCountedFromTheFirstRow) {
  const auto facts_of = [](const std::vector<float>& values, std::vector<std::int64_t> shape) {
    return not_finite({"t", DType::kF32, std::move(shape), {}}, values);
  };
  EXPECT_FALSE(facts_of({0, -kInfinity, 0}, {3})) << "a mask that is added";
  EXPECT_FALSE(facts_of({0.5f, 1}, {2}));
  ASSERT_TRUE(facts_of({0, kInfinity}, {2}));
  const auto facts = facts_of({1, 2, 3, 4, NAN, 5, -kInfinity, 7}, {4, 2});
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->count, 2);
  EXPECT_EQ(facts->first_row, 2);
  const std::vector<double> large{1e300, 1};
  const TensorEntry entry{"t", DType::kF64, {2}, std::as_bytes(std::span(large))};
  EXPECT_FALSE(not_finite(entry, std::vector<float>{kInfinity, 1})) << "a number of float64";
  EXPECT_NE(not_finite_note({{"a\nb", *facts}}).find("a\\x0ab (2 values, first in row 2)"),
            std::string::npos);
}

TEST(Packed, ScalesLieBesideWeightsThatArePacked) {
  MadeTensors made;
  std::vector<std::uint8_t> bytes;
  for (std::uint32_t i = 0; i < 4096; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 167 >> 3));
  const auto raw = std::as_bytes(std::span(bytes));
  const auto add = [&](const char* name, DType dtype, std::vector<std::int64_t> shape) {
    std::int64_t n = dtype_bits(dtype) / 8;
    for (const std::int64_t side : shape) n *= side;
    made.bundle.tensors.push_back(
        {name, dtype, std::move(shape), raw.first(static_cast<std::size_t>(n))});
  };
  std::vector<std::int64_t> positions(64);
  for (std::size_t i = 0; i < 64; ++i) positions[i] = static_cast<std::int64_t>(i);
  add("a.q.qweight", DType::kI32, {32, 16});
  add("a.q.zoom", DType::kF32, {4, 16});    // scales under another name
  add("a.q.large", DType::kF32, {32, 32});  // more than there is to scale
  add("b.weight", DType::kU8, {64, 16});
  add("b.weight.absmax", DType::kF32, {64});
  add("c.w", DType::kF8E4M3, {32, 32});
  add("c.w_scale_inv", DType::kBF16, {4, 4});
  add("d.scales", DType::kF32, {8, 8});  // its weights are missing
  add("e.running_var", DType::kF32, {64});
  made.bundle.tensors.push_back(
      {"e.position_ids", DType::kI64, {64}, std::as_bytes(std::span(positions))});
  const std::vector<bool> found = packed_parameters(made.bundle);
  const std::vector<bool> expected{false, true, false, false, true,
                                   false, true, false, false, false};
  EXPECT_EQ(found, expected);
}

TEST(Packed, CountersIndicesAndMasksAreNoWeights) {
  std::vector<std::int32_t> index(2401);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int32_t>(i * 7 % 169);
  std::vector<std::uint8_t> mask(4096);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 64 <= i / 64;
  const std::int64_t steps = 77;
  const auto values = normals(2028, 4);
  const auto real = std::as_bytes(std::span(values));
  TensorBundle bundle;
  bundle.tensors = {
      {"attn.relative_position_index", DType::kI32, {49, 49}, std::as_bytes(std::span(index))},
      {"attn.bias", DType::kU8, {64, 64}, std::as_bytes(std::span(mask))},
      {"attn.relative_position_bias_table", DType::kF32, {169, 12}, real},
      {"bn.num_batches_tracked", DType::kI64, {}, std::as_bytes(std::span(&steps, 1))},
      {"bn.running_var", DType::kF32, {64}, real.first(256)}};
  EXPECT_EQ(packed_parameters(bundle), std::vector<bool>(5, false));
}

}  // namespace
}  // namespace gbcompress
