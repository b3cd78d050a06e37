#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "artifact/integers/integers.h"
#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "golden/craft.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

using craft::Bytes;

std::vector<std::int32_t> integers(std::int64_t n, std::uint64_t seed, float deviation = 1.5f) {
  std::vector<float> reals(static_cast<std::size_t>(n));
  RandomStream(seed, "coded test").fill_normal(reals, 0, deviation);
  std::vector<std::int32_t> result;
  for (float value : reals) result.push_back(static_cast<std::int32_t>(std::lrint(value)));
  return result;
}

CodedValues values(const std::vector<std::int64_t>& shape, std::uint64_t seed, int step = -70) {
  CodedValues result{.grid = default_grid(shape), .step = step};
  result.integers = integers(result.grid.size(), seed);
  return result;
}

GNetSpec some_spec() {
  GNetSpec spec;
  spec.type_id = "linear";
  spec.shape = {9, 10};
  spec.tile_rows = 4;
  spec.tile_cols = 6;
  spec.col_code = {Encoding::kLatent, 2};
  spec.hidden = {5, 3};
  spec.output_scale = 0.3f;
  return spec;
}

CodedTheta some_theta(const GNetSpec& spec, std::uint64_t seed) {
  CodedTheta theta{.integers = integers(spec_parameters(spec), seed, 6)};
  for (std::size_t b = 0; b < gnet_blocks(spec).size(); ++b)
    theta.steps.push_back(-40 - static_cast<int>(b));
  return theta;
}

template <typename T>
std::vector<T> as(const Bytes& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

TEST(Steps, AreSixteenthsOfOctaves) {
  constexpr int kLeastNormal = -126 * 16;  // of float32
  for (int k = kMinStep; k < kLeastNormal; ++k)
    EXPECT_NEAR(step_size(k), std::exp2(k / 16.0), 0x1.8p-150) << k;
  for (int k = kLeastNormal; k <= kMaxStep; ++k) {
    EXPECT_NEAR(step_size(k) / std::exp2(k / 16.0), 1, 6e-8) << k;
    EXPECT_EQ(nearest_step(step_size(k)), k);
    if (k + 16 <= kMaxStep) {
      EXPECT_EQ(step_size(k + 16), 2 * step_size(k));
    }
  }
  EXPECT_EQ(step_size(0), 1);
  EXPECT_EQ(nearest_step(1.021f), 0);
  EXPECT_EQ(nearest_step(1.023f), 1);
  EXPECT_EQ(nearest_step(0), kMinStep);
  EXPECT_EQ(nearest_step(-1), kMinStep);
  EXPECT_EQ(nearest_step(std::nanf("")), kMinStep);
  EXPECT_EQ(nearest_step(0x1p-148f), kMinStep);
  EXPECT_EQ(nearest_step(3.4e38f), kMaxStep);
  EXPECT_EQ(nearest_step(INFINITY), kMaxStep);
  EXPECT_EQ(code_of([] { step_size(kMaxStep + 1); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { step_size(kMinStep - 1); }), Errc::kUsage);
}

TEST(Steps, GridsFollowFromShapes) {
  const auto expect = [](std::vector<std::int64_t> shape, std::int64_t rows, std::int64_t cols,
                         std::int64_t stride) {
    const IntegerGrid grid = default_grid(shape);
    SCOPED_TRACE(testing::PrintToString(shape));
    EXPECT_EQ(grid.rows, rows);
    EXPECT_EQ(grid.cols, cols);
    EXPECT_EQ(grid.stride, stride);
  };
  expect({}, 1, 1, 0);
  expect({7}, 1, 7, 0);
  expect({784}, 1, 784, 0);
  expect({300, 784}, 300, 784, 28);
  expect({10, 100}, 10, 100, 10);
  expect({100, 300}, 100, 300, 0);
  expect({5, 64}, 5, 64, 8);
  expect({5, 49}, 5, 49, 0);
  expect({16, 3, 3, 3}, 16, 27, 3);
  expect({20, 1, 5, 5}, 20, 25, 5);
  expect({20, 8, 1, 1}, 20, 8, 0);
  expect({6, 4, 3}, 6, 12, 3);
  expect({6, 1, 3}, 6, 3, 0);
  expect({6, 4, 3, 5}, 6, 60, 5);
  expect({6, 4, 3, 1}, 6, 12, 0);
  expect({6, 1, 1}, 6, 1, 0);
}

struct Coded : testing::TestWithParam<CodecProfile> {
  ArtifactReader reread(ArtifactWriter& writer) {
    writer.set_profile(GetParam());
    auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
    EXPECT_NO_THROW(reader.verify());
    return reader;
  }
};
INSTANTIATE_TEST_SUITE_P(Profiles, Coded,
                         testing::Values(CodecProfile::kSmall, CodecProfile::kLanes),
                         [](const auto& p) { return std::string(profile_name(p.param)); });

TEST_P(Coded, ValuesComeBackInEveryOrder) {
  const std::vector<std::vector<std::int64_t>> shapes = {{12, 64}, {7}, {4, 3, 3, 3}, {}, {30, 20}};
  ArtifactWriter writer("", "");
  std::vector<CodedValues> all;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    all.push_back(values(shapes[i], i, -70 + 9 * static_cast<int>(i)));
    if (i == 0) all[0].row_steps = {0, 3, -2, 5, 0, 0, 1, 1, -16, 2, 7, 0};
    if (i == 4) all[4].grid = {20, 30, 7};
    all[i].grid.dependent = i == 0 || i == 2 || i == 3;
    all[i].grid.lanes = all[i].grid.dependent && GetParam() == CodecProfile::kLanes;
    writer.add_coded("t" + std::to_string(i), DType::kF32, shapes[i], all[i]);
    writer.add_plain("p" + std::to_string(i), DType::kU8, {1}, Bytes(1, std::byte{7}));
  }
  const auto reader = reread(writer);
  EXPECT_EQ(reader.profile(), GetParam());
  for (std::size_t i : {8u, 0u, 4u, 2u, 6u, 0u}) {  // backwards and forwards
    const CodedValues got = reader.coded(i), &want = all[i / 2];
    EXPECT_EQ(got.integers, want.integers);
    EXPECT_EQ(got.step, want.step);
    EXPECT_EQ(got.row_steps, want.row_steps);
    EXPECT_EQ(got.grid.rows, want.grid.rows);
    EXPECT_EQ(got.grid.cols, want.grid.cols);
    EXPECT_EQ(got.grid.stride, want.grid.stride);
    EXPECT_EQ(got.grid.dependent, want.grid.dependent);
  }
  const auto floats = as<float>(decode_tensor(reader, 0));
  unsigned states[64] = {};  // as docs/reference/codec.md and lanes.md have them
  for (std::size_t n = 0; n < floats.size(); ++n) {
    unsigned& state = states[all[0].grid.lanes ? n % 64 : 0];
    const std::int32_t k = all[0].integers[n];
    float number = static_cast<float>(k);
    if (state % 2 == 1 && k != 0) number += k > 0 ? -0.5f : 0.5f;
    ASSERT_EQ(floats[n], number * step_size(all[0].step + all[0].row_steps[n / 64])) << n;
    state = (state / 2) ^ (state % 2 ? 119u : 0u) ^ (k % 2 != 0 ? 35u : 0u);
  }
  for (std::size_t wrong : {1u, 10u}) {
    EXPECT_EQ(code_of([&] { reader.coded(wrong); }), Errc::kUsage);
    EXPECT_EQ(code_of([&] { reader.theta(wrong); }), Errc::kUsage);
  }
}

TEST_P(Coded, GNetsAndPredictedTensorsComeBack) {
  const GNetSpec spec = some_spec();
  const CodedTheta theta = some_theta(spec, 5), other = some_theta(spec, 6);
  const CodedValues more = values({9, 10}, 7);
  ArtifactWriter writer("", "");
  writer.add_generated_coded("g", DType::kF32, {9, 10}, spec, theta);
  writer.add_predicted("r", DType::kF32, {9, 10}, spec, other, more);
  writer.add_tied("t", "r");
  const auto reader = reread(writer);
  EXPECT_EQ(reader.tensors()[0].spec, spec);
  EXPECT_EQ(reader.tensors()[0].coding, Coding::kCoded);
  EXPECT_EQ(reader.tensors()[1].kind, TensorKind::kPredicted);
  EXPECT_EQ(reader.coded(1).integers, more.integers);
  EXPECT_EQ(reader.theta(0), coded_floats(spec, theta));
  EXPECT_EQ(reader.theta(1), coded_floats(spec, other));
  // The same g-net stored as float32 makes the same weights.
  ArtifactWriter exact("", "");
  exact.add_generated("g", DType::kF32, {9, 10}, spec, Coding::kF32, coded_floats(spec, other));
  const auto base = as<float>(decode_tensor(reread(exact), 0));
  const auto sums = as<float>(decode_tensor(reader, 1));
  EXPECT_EQ(decode_tensor(reader, 2), decode_tensor(reader, 1));
  for (std::size_t n = 0; n < sums.size(); ++n)
    ASSERT_EQ(sums[n], base[n] + static_cast<float>(more.integers[n]) * step_size(more.step));
}

TEST_P(Coded, StochasticGNetsTellTheCoderWhatTheyExpect) {
  // Magnitudes follow the expected deviations: knowing those must make the file smaller than the
  // same integers without them.
  GNetSpec spec = some_spec();
  spec.shape = {60, 80};
  spec.tile_rows = 60;
  spec.tile_cols = 80;
  spec.generator = Generator::kStochastic;
  CodedTheta theta = some_theta(spec, 5);
  for (int& step : theta.steps) step -= 12;
  ArtifactTensor facts;
  facts.kind = TensorKind::kPredicted;
  facts.shape = spec.shape;
  facts.spec = spec;
  facts.theta_steps = theta.steps;
  ASSERT_TRUE(has_prior_classes(facts));
  const auto classes = prior_classes(facts, to_blocks(spec, theta.integers));
  ASSERT_EQ(classes.size(), 4800u);
  CodedValues left = values({60, 80}, 7);
  auto sorted = classes;
  std::sort(sorted.begin(), sorted.end());
  const int middle = sorted[2400] > sorted[0] ? sorted[2400] : sorted[0] + 1;
  const auto used =
      std::count_if(classes.begin(), classes.end(), [&](int c) { return c >= middle; });
  ASSERT_GT(used, 200);
  ASSERT_LT(used, 4600);
  std::mt19937 random(3);
  for (std::size_t n = 0; n < left.integers.size(); ++n)
    left.integers[n] = classes[n] < middle ? 0 : static_cast<std::int32_t>(random() % 31) - 15;
  ArtifactWriter with("", ""), without("", "");
  with.set_profile(GetParam());
  without.set_profile(GetParam());
  with.add_predicted("r", DType::kF32, {60, 80}, spec, theta, left);
  // As many g-net parameters that expect something else.
  CodedTheta other = some_theta(spec, 11);
  other.steps = theta.steps;
  without.add_predicted("r", DType::kF32, {60, 80}, spec, other, left);
  const auto reader = reread(with);
  EXPECT_EQ(reader.coded(0).integers, left.integers);
  EXPECT_EQ(reader.theta(0), coded_floats(spec, theta));
  // Lanes have tables by row and column alone.
  const double least = GetParam() == CodecProfile::kLanes ? 0.95 : 1.05;
  EXPECT_LT(with.encode().size() * least, static_cast<double>(without.encode().size()));
}

TEST(PriorClass, HalfOctavesAroundTheScale) {
  EXPECT_EQ(prior_class(0), 8);
  EXPECT_EQ(prior_class(-0.001f), 7);
  EXPECT_EQ(prior_class(0.3466f), 9);
  EXPECT_EQ(prior_class(0.3465f), 8);
  EXPECT_EQ(prior_class(-100), 0);
  EXPECT_EQ(prior_class(100), 15);
  EXPECT_EQ(prior_class(std::nanf("")), 0);
}

TEST_P(Coded, BlocksHaveTheirOwnSteps) {
  const GNetSpec spec = some_spec();
  const CodedTheta theta = some_theta(spec, 5);
  const auto floats = coded_floats(spec, theta);
  const auto blocks = gnet_blocks(spec);
  const auto parameters = static_cast<std::size_t>(gnet_parameters(spec));
  for (std::size_t n = 0; n < floats.size(); ++n) {
    const auto p = static_cast<std::int64_t>(n % parameters);
    std::size_t b = 0;
    while (p >= blocks[b].first + blocks[b].count) ++b;
    ASSERT_EQ(floats[n], static_cast<float>(theta.integers[n]) * step_size(theta.steps[b]));
  }
  EXPECT_EQ(from_blocks(spec, to_blocks(spec, theta.integers)), theta.integers);
  // The first block of every tile comes first.
  const auto ordered = to_blocks(spec, theta.integers);
  for (std::int64_t tile = 0; tile < spec.grid().tiles(); ++tile)
    for (std::int64_t p = 0; p < blocks[0].count; ++p)
      ASSERT_EQ(ordered[static_cast<std::size_t>(tile * blocks[0].count + p)],
                theta.integers[static_cast<std::size_t>(tile) * parameters + p]);
}

TEST_P(Coded, EveryTypeIsRoundedOnce) {
  ArtifactWriter writer("", "");
  const CodedValues coded = values({30}, 3, -37);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
    writer.add_coded(std::string(dtype_name(dtype)), dtype, {30}, coded);
  const auto reader = reread(writer);
  const auto narrow = as<float>(decode_tensor(reader, 0));
  const auto wide = as<double>(decode_tensor(reader, 1));
  for (std::size_t n = 0; n < narrow.size(); ++n) EXPECT_EQ(wide[n], double{narrow[n]});
  EXPECT_EQ(decode_tensor(reader, 2).size(), 60u);
  EXPECT_EQ(decode_tensor(reader, 3).size(), 60u);
}

TEST_P(Coded, BitsOfTensorsAddUpToTheFile) {
  ArtifactWriter writer("", "");
  writer.add_coded("a", DType::kF32, {50, 64}, values({50, 64}, 1));
  writer.add_plain("p", DType::kU8, {100}, Bytes(100));
  writer.add_coded("b", DType::kF32, {200}, values({200}, 2));
  const auto reader = reread(writer);
  const auto bits = reader.tensor_bits();
  ASSERT_EQ(bits.size(), 3u);
  EXPECT_GT(bits[0], 3200 * 1.5);
  EXPECT_LT(bits[0], 3200 * 4.0);
  EXPECT_EQ(bits[1], 8.0 * static_cast<double>(reader.tensors()[1].stored_bytes));
  const double rest = static_cast<double>(reader.file_bytes() - reader.header_bytes()) * 8;
  EXPECT_NEAR(bits[0] + bits[1] + bits[2], rest, 0.01 * rest + 30 * 8);
}

TEST(CodedWriter, ConstantsAreExact) {
  const float pi = 3.14159f;
  const std::int64_t big = -5;
  ArtifactWriter writer("", "");
  writer.add_constant("f", DType::kF32, {3, 2}, std::as_bytes(std::span(&pi, 1)));
  writer.add_constant("i", DType::kI64, {}, std::as_bytes(std::span(&big, 1)));
  writer.add_constant("none", DType::kBool, {0}, Bytes(1));
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  EXPECT_EQ(as<float>(decode_tensor(reader, 0)), std::vector<float>(6, pi));
  EXPECT_EQ(as<std::int64_t>(decode_tensor(reader, 1)), std::vector<std::int64_t>{big});
  EXPECT_TRUE(decode_tensor(reader, 2).empty());
  EXPECT_EQ(as<float>(reader.constant(0)), std::vector<float>{pi});
  EXPECT_EQ(reader.output_bytes(), 32);
  EXPECT_EQ(code_of([&] { writer.add_constant("g", DType::kF32, {3}, Bytes(8)); }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { writer.add_constant("g", DType::kF4, {2}, Bytes(1)); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { reader.coded(0); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { reader.constant(7); }), Errc::kUsage);
}

TEST(CodedWriter, RefusesWhatNoReaderTakes) {
  ArtifactWriter writer("", "");
  const auto code = [&](auto change, DType dtype = DType::kF32) {
    CodedValues coded = values({4, 5}, 1);
    change(coded);
    return code_of([&] { writer.add_coded("w", dtype, {4, 5}, coded); });
  };
  EXPECT_EQ(code([](CodedValues&) {}, DType::kF8E4M3), Errc::kUsage);
  EXPECT_EQ(code([](CodedValues& v) { v.step = kMaxStep + 1; }), Errc::kUsage);
  EXPECT_EQ(code([](CodedValues& v) { v.integers[3] = kMaxMagnitude + 1; }), Errc::kUsage);
  EXPECT_EQ(code([](CodedValues& v) { v.integers.pop_back(); }), Errc::kShapeMismatch);
  EXPECT_EQ(code([](CodedValues& v) { v.grid.stride = 5; }), Errc::kShapeMismatch);
  EXPECT_EQ(code([](CodedValues& v) { v.row_steps = {1}; }), Errc::kShapeMismatch);
  EXPECT_EQ(code([](CodedValues& v) { v.row_steps = {0, 0, 3000, 0}; }), Errc::kUsage);
  EXPECT_EQ(code([](CodedValues& v) { v = values({4, 6}, 1); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { writer.add_coded("w", DType::kF32, {0}, {}); }), Errc::kShapeMismatch);
  const GNetSpec spec = some_spec();
  CodedTheta theta = some_theta(spec, 1);
  theta.steps.pop_back();
  EXPECT_EQ(code_of([&] {
              writer.add_generated_coded("w", DType::kF32, {9, 10}, spec, theta);
            }),
            Errc::kShapeMismatch);
  theta.steps.push_back(-5000);
  EXPECT_EQ(code_of([&] {
              writer.add_generated_coded("w", DType::kF32, {9, 10}, spec, theta);
            }),
            Errc::kUsage);
  const std::vector<float> reals(static_cast<std::size_t>(spec_parameters(spec)));
  EXPECT_EQ(code_of([&] {
              writer.add_generated("w", DType::kF32, {9, 10}, spec, Coding::kCoded, reals);
            }),
            Errc::kUsage);
  EXPECT_EQ(code_of([&] { round_trip(spec, Coding::kCoded, reals); }), Errc::kUsage);
  EXPECT_EQ(code([](CodedValues&) {}), Errc::kFailure);
}

}  // namespace
}  // namespace gbcompress
