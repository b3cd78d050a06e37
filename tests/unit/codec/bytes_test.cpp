#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "codec/byte_coder.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

/// Around `middle`, as the exponents of normal numbers are.
Bytes exponents(std::size_t n, std::uint64_t seed, int middle = 120) {
  const RandomStream noise(seed, "bytes");
  Bytes bytes;
  for (std::uint64_t i = 0; i < n; ++i)
    bytes.push_back(static_cast<std::byte>(
        middle + static_cast<int>(std::floor(std::log2(std::fabs(noise.normal(i)) + 1e-9f)))));
  return bytes;
}

Bytes back(const Bytes& bytes) {
  Bytes result(bytes.size());
  codec::decode_bytes(codec::encode_bytes(bytes), result);
  return result;
}

TEST(ByteCoder, GivesBackAnyBytes) {
  EXPECT_EQ(back({}), Bytes{});
  for (const std::size_t n : {1u, 2u, 3u, 5u, 1000u, 262'144u, 262'147u, 600'000u}) {
    EXPECT_EQ(back(exponents(n, n)), exponents(n, n)) << n;
    EXPECT_EQ(back(Bytes(n, std::byte{7})), Bytes(n, std::byte{7})) << n;
  }
  Bytes random, rare(300'000, std::byte{255});
  const RandomStream noise(9, "bytes");
  for (std::uint64_t i = 0; i < 70'000; ++i)
    random.push_back(static_cast<std::byte>(noise.bits(i)));
  for (std::size_t i = 0; i < 256; ++i) rare[1000 * i] = static_cast<std::byte>(i);
  EXPECT_EQ(back(random), random);
  EXPECT_EQ(back(rare), rare);
}

TEST(ByteCoder, IsNearTheEntropy) {
  const Bytes bytes = exponents(400'000, 3);
  std::array<double, 256> counts{};
  for (const std::byte byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
  double bits = 0;
  for (const double n : counts)
    if (n > 0) bits += n * std::log2(400'000 / n);
  const auto size = static_cast<double>(codec::encode_bytes(bytes).size());
  EXPECT_LT(size, 1.003 * bits / 8 + 200);
  EXPECT_NEAR(codec::expected_size(bytes), size, 0.005 * size);
}

TEST(ByteCoder, RefusesEveryDamagedByte) {
  const Bytes bytes = exponents(500, 4), good = codec::encode_bytes(bytes);
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const int flip : {1, 128}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      Bytes result(bytes.size());
      try {
        codec::decode_bytes(bad, result);
      } catch (const Error&) {
        ++refused;
      }
    }
  // The states' ends tell nearly all; a file's digest tells the rest.
  EXPECT_GT(refused, static_cast<int>(2 * good.size()) - 10);
  for (std::size_t size = 0; size < good.size(); ++size) {
    Bytes result(bytes.size());
    EXPECT_THROW(codec::decode_bytes(std::span(good).first(size), result), Error) << size;
  }
  Bytes longer = good;
  longer.push_back({});
  Bytes result(bytes.size());
  EXPECT_THROW(codec::decode_bytes(longer, result), Error);
}

}  // namespace
}  // namespace gbcompress
