#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "gbcompress/artifact_writer.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "support/files.h"

namespace gbcompress {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Narrow, ValuesBeyondTheTypeAreAnErrorAndInfinitiesStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  ArtifactWriter writer("", "");
  writer.add_plain("far", DType::kF32, {3}, bytes_of<float>({1, -71000, infinity}));
  writer.add_plain("mask", DType::kF32, {2}, bytes_of<float>({-infinity, 65519}));
  writer.add_plain("wide", DType::kF64, {2}, bytes_of<double>({2.5e40, 1}));
  const ArtifactReader artifact = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  const auto read = [&](std::size_t tensor, DType dtype, std::size_t elements) {
    std::vector<std::byte> bytes(elements * static_cast<std::size_t>(dtype_bits(dtype)) / 8);
    read_into(artifact, tensor, dtype, bytes);
    return bytes;
  };
  GBC_EXPECT_ERROR(
      read(0, DType::kF16, 3), Errc::kUsage,
      "far holds magnitudes up to 71000, which F16 does not represent; read it as F32");
  EXPECT_EQ(read(0, DType::kBF16, 3).size(), 6u);
  EXPECT_EQ(read(1, DType::kF16, 2), bytes_of<std::uint16_t>({0xfc00, 0x7bff}));
  GBC_EXPECT_ERROR(read(2, DType::kF32, 2), Errc::kUsage,
                   "wide holds magnitudes up to 2.50e+40, which F32 does not represent; read it as "
                   "its own type, F64");
  EXPECT_EQ(read(2, DType::kF64, 2), bytes_of<double>({2.5e40, 1}));
}

}  // namespace
}  // namespace gbcompress
