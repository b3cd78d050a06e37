#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "gbcompress/codec.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Tensor {
  IntegerGrid grid;
  std::vector<std::int32_t> values;
  std::vector<std::uint8_t> prior;
};

/// Laplace numbers whose scale differs by row and column, some rows all zero, some numbers huge.
Tensor random_tensor(std::uint64_t seed) {
  const RandomStream random(seed, "codec");
  std::uint64_t at = 0;
  const auto below = [&](std::uint32_t n) {
    return static_cast<std::int64_t>(random.bits(at++) % n);
  };
  Tensor tensor;
  tensor.grid.rows = 1 + below(seed % 3 ? 40 : 4);
  tensor.grid.cols = 1 + below(seed % 4 ? 90 : 3);
  tensor.grid.stride =
      tensor.grid.cols > 1 ? below(static_cast<std::uint32_t>(tensor.grid.cols)) : 0;
  const double base = std::exp2(static_cast<double>(below(14)) - 4);
  for (std::int64_t row = 0; row < tensor.grid.rows; ++row) {
    const double scale = below(5) ? base * std::exp2(below(3)) : 0;
    for (std::int64_t col = 0; col < tensor.grid.cols; ++col) {
      double value = scale * std::log((random.bits(at++) + 1.0) / 4294967297.0);
      if (below(500) == 0) value = static_cast<double>(below(1 << 20));
      if (below(2)) value = -value;
      const double bound = kMaxMagnitude;
      tensor.values.push_back(
          static_cast<std::int32_t>(std::lrint(std::clamp(value, -bound, bound))));
      if (seed % 2)
        tensor.prior.push_back(static_cast<std::uint8_t>(std::min<std::int64_t>(15, col % 16)));
    }
  }
  return tensor;
}

class RoundTrip : public testing::TestWithParam<CodecProfile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, RoundTrip,
                         testing::Values(CodecProfile::kSmall, CodecProfile::kFast),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

TEST_P(RoundTrip, TensorsOfAllShapesInOneStream) {
  std::vector<Tensor> tensors;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) tensors.push_back(random_tensor(seed));
  IntegerEncoder encoder(GetParam());
  for (const Tensor& tensor : tensors) encoder.add(tensor.grid, tensor.values, tensor.prior);
  const auto stream = encoder.finish();
  IntegerDecoder decoder(GetParam(), stream);
  for (const Tensor& tensor : tensors) {
    std::vector<std::int32_t> values(tensor.values.size());
    decoder.read(tensor.grid, values, tensor.prior);
    ASSERT_EQ(values, tensor.values) << tensor.grid.rows << " x " << tensor.grid.cols;
  }
  decoder.finish();
}

}  // namespace
}  // namespace gbcompress
