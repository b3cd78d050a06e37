#include <gtest/gtest.h>

#include "gbcompress/error.h"
#include "support/code_of.h"
#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

using testing_codec::decode;
using testing_codec::encode;
using testing_codec::random_tensor;
using testing_codec::Tensor;

class RoundTrip : public ::testing::TestWithParam<CodecProfile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, RoundTrip,
                         ::testing::Values(CodecProfile::kSmall, CodecProfile::kLanes),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

TEST_P(RoundTrip, TensorsOfAllShapesInOneStream) {
  std::vector<Tensor> tensors;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) tensors.push_back(random_tensor(seed));
  const auto found = decode(GetParam(), encode(GetParam(), tensors), tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    ASSERT_EQ(found[i], tensors[i].values)
        << tensors[i].grid.rows << " x " << tensors[i].grid.cols << ", seed " << i + 1;
}

TEST_P(RoundTrip, EachTensorInAStreamOfItsOwn) {
  for (std::uint64_t seed = 100; seed <= 200; ++seed) {
    const std::vector<Tensor> tensors = {random_tensor(seed)};
    ASSERT_EQ(decode(GetParam(), encode(GetParam(), tensors), tensors)[0], tensors[0].values)
        << seed;
  }
}

TEST_P(RoundTrip, LongRowsSeveralChunksAndTheLargestMagnitudes) {
  Tensor wide{{70, 5000, 0}, {}, {}};
  const RandomStream random(1, "wide");
  for (std::int64_t i = 0; i < wide.grid.size(); ++i)
    wide.values.push_back(static_cast<int>(testing_codec::laplace(random, i, 2)));
  const Tensor extreme{{2, 3, 2},
                       {kMaxMagnitude, -kMaxMagnitude, 0, 1, kMaxMagnitude - 1, -1},
                       {0, 15, 0, 15, 0, 15}};
  const std::vector<Tensor> tensors = {wide, extreme, wide};
  const auto found = decode(GetParam(), encode(GetParam(), tensors), tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(found[i], tensors[i].values);
}

TEST_P(RoundTrip, AVectorCostsTheSameWhicheverWayItLies) {
  Tensor row = random_tensor(8);
  row.grid = {1, row.grid.size(), 0};
  Tensor column = row;
  std::swap(column.grid.rows, column.grid.cols);
  EXPECT_EQ(encode(GetParam(), {row}), encode(GetParam(), {column}));
}

TEST_P(RoundTrip, ForeignGridsAndNumbersAreRefused) {
  IntegerEncoder encoder(GetParam());
  const std::vector<std::int32_t> four = {1, 2, 3, 4};
  const auto code = [&](IntegerGrid grid, std::vector<std::int32_t> values,
                        std::vector<std::uint8_t> prior) {
    return code_of([&] { encoder.add(grid, values, prior); });
  };
  EXPECT_EQ(code({2, 3, 0}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({0, 4, 0}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({-2, -2, 0}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({std::int64_t{1} << 32, std::int64_t{1} << 32, 0}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, 2}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, -1}, four, {}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, 0}, four, {1, 2, 3}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, 0}, four, {1, 2, 3, 16}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, 0}, {0, 0, 0, kMaxMagnitude + 1}, {}), Errc::kUsage);
  EXPECT_EQ(code({2, 2, 0}, {0, 0, INT32_MIN, 0}, {}), Errc::kUsage);
  const std::vector<float> bad = {0, NAN, 0, 0};
  EXPECT_EQ(code_of([&] { encoder.quantize_and_add({2, 2, 0}, bad, {}, 0); }), Errc::kUsage);
  const std::vector<float> good = {0, 1, 2, 3};
  EXPECT_EQ(code_of([&] { encoder.quantize_and_add({2, 2, 0}, good, {}, -1); }), Errc::kUsage);
  const std::vector<float> three = {1, 1, 1};
  EXPECT_EQ(code_of([&] { encoder.quantize_and_add({2, 2, 0}, good, three, 0); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
