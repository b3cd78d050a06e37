#include "quantize/kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quantize/allocation/plan.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

WeightKind kind_of(const std::string& name, std::vector<std::int64_t> shape,
                   const std::vector<float>& values) {
  MadeTensors made;
  made.add(name, std::move(shape), values);
  return weight_kind(made.bundle.tensors[0], values);
}

TEST(Kinds, TellWeightsFromEverythingElse) {
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, normals(600, 1)), WeightKind::kMatrix);
  EXPECT_EQ(kind_of("long.bias", {20000}, normals(20000, 2)), WeightKind::kMatrix);
  EXPECT_EQ(kind_of("fc.bias", {300}, normals(300, 3)), WeightKind::kVector);
  EXPECT_EQ(kind_of("row", {1, 300}, normals(300, 4)), WeightKind::kVector);
  EXPECT_EQ(kind_of("tiny.weight", {7, 9}, normals(63, 5)), WeightKind::kVector);
  EXPECT_EQ(kind_of("norm.weight", {300}, std::vector<float>(300, 1)), WeightKind::kExact);
  EXPECT_EQ(kind_of("temperature", {}, {3}), WeightKind::kExact);
}

TEST(Kinds, TablesByNameStayExactOnlyWhereTheyAreSmall) {
  const auto values = normals(300, 6);
  for (const char* name : {"cent_table", "rope.inv_freq", "attn_mask", "a.window", "zero_point"})
    EXPECT_EQ(kind_of(name, {300}, values), WeightKind::kExact) << name;
  // Ends of words are not words.
  for (const char* name : {"unstable", "upscale", "footstep"})
    EXPECT_EQ(kind_of(name, {300}, values), WeightKind::kVector) << name;
  EXPECT_EQ(kind_of("lookup_table", {200, 200}, normals(40000, 7)), WeightKind::kMatrix);
  EXPECT_EQ(kind_of("q.scales", {200, 20}, normals(4000, 8)), WeightKind::kVector);
}

TEST(Kinds, ProgressionsAreTables) {
  std::vector<float> steps;
  for (int i = 0; i < 360; ++i) steps.push_back(1997.38f + 20 * static_cast<float>(i));
  EXPECT_EQ(kind_of("cents", {360}, steps), WeightKind::kExact);
  steps[100] += 15;
  EXPECT_EQ(kind_of("cents", {360}, steps), WeightKind::kVector);
}

TEST(Kinds, NothingIsDoneToNumbersThatAreNone) {
  auto values = normals(600, 9);
  values[500] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, values), WeightKind::kExact);
  values[500] = NAN;
  EXPECT_EQ(kind_of("fc.weight", {30, 20}, values), WeightKind::kExact);
  EXPECT_EQ(weight_kind({"ids", DType::kI64, {600}, {}}, {}), WeightKind::kExact);
}

TEST(Kinds, StateOfTrainingIsKnownByName) {
  const auto values = normals(600, 10);
  EXPECT_EQ(kind_of("layers.0.weight.exp_avg", {30, 20}, values), WeightKind::kExact);
  EXPECT_EQ(kind_of("layers.0.weight", {30, 20}, values), WeightKind::kMatrix);
}

TEST(Kinds, MasksMayHoldInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto broken = [](const std::vector<float>& values) {
    return holds_non_numbers({"t", DType::kF32, {static_cast<std::int64_t>(values.size())}, {}},
                             values);
  };
  EXPECT_FALSE(broken({0, -infinity, 0}));
  EXPECT_FALSE(broken({0.5f, 1}));
  EXPECT_TRUE(broken({0.5f, -infinity}));
  EXPECT_TRUE(broken({0, infinity}));
  EXPECT_TRUE(broken({0, NAN}));
  const std::vector<double> large{1e300, 1};
  const TensorEntry entry{"t", DType::kF64, {2}, std::as_bytes(std::span(large))};
  EXPECT_FALSE(holds_non_numbers(entry, std::vector<float>{infinity, 1})) << "a number of float64";
}

}  // namespace
}  // namespace gbcompress
