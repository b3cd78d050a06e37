#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "codec/byte_coder.h"
#include "gbcompress/error.h"
#include "unit/codec/lanes_parts.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using Counts = std::array<std::uint32_t, codec::kByteValues>;

/// Around `middle`, as the exponents of normal numbers are.
Bytes exponents(std::size_t n, std::uint64_t seed, int middle = 120) {
  const RandomStream noise(seed, "bytes");
  Bytes bytes;
  for (std::uint64_t i = 0; i < n; ++i)
    bytes.push_back(static_cast<std::byte>(
        middle + static_cast<int>(std::floor(std::log2(std::fabs(noise.normal(i)) + 1e-9f)))));
  return bytes;
}

codec::ByteWidths widths_of(const Bytes& bytes) {
  Counts counts{};
  for (const std::byte byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
  return codec::byte_widths(counts, bytes.size());
}

Bytes encoded(const Bytes& bytes, std::span<const codec::ByteWidths> tables,
              const codec::ByteClasses& classes = {}) {
  Bytes stream;
  std::vector<std::uint16_t> words;
  codec::ByteEncoder(tables).encode(bytes, classes, words, stream);
  return stream;
}

Bytes back(const Bytes& bytes) {
  const codec::ByteWidths widths = widths_of(bytes);
  Bytes result(bytes.size());
  codec::ByteDecoder({&widths, 1}).decode(encoded(bytes, {&widths, 1}), {}, result);
  return result;
}

TEST(ByteCoder, GivesBackAnyBytes) {
  for (const std::size_t n : {1u, 2u, 3u, 5u, 1000u, 16'383u, 16'384u, 16'385u, 262'147u}) {
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

TEST(ByteCoder, TakesTheTableOfEachRun) {
  for (const std::size_t n : {1000u, 20'000u, 100'003u}) {
    Bytes bytes;
    std::vector<std::uint8_t> runs;
    const std::array parts{exponents(n, 1, 60), exponents(n, 2, 200), exponents(n, 3)};
    for (std::size_t i = 0; i < n; ++i) {
      if (i % codec::kLeastRun == 0) runs.push_back(static_cast<std::uint8_t>(i * 7 % 3));
      bytes.push_back(parts[runs.back()][i]);
    }
    std::vector<codec::ByteWidths> tables;
    for (const Bytes& part : parts) tables.push_back(widths_of(part));
    const codec::ByteClasses classes{runs, codec::kLeastRun};
    Bytes result(n);
    codec::ByteDecoder(tables).decode(encoded(bytes, tables, classes), classes, result);
    EXPECT_EQ(result, bytes) << n;
  }
}

TEST(ByteCoder, HasTheSameBitsOnEveryProcessor) {
  const Bytes bytes = exponents(50'001, 8);
  const codec::ByteWidths widths = widths_of(bytes);
  const Bytes stream = encoded(bytes, {&widths, 1});
  testing_codec::on_every_target([&](const char* target) {
    Bytes result(bytes.size());
    codec::ByteDecoder({&widths, 1}).decode(stream, {}, result);
    EXPECT_EQ(result, bytes) << target;
    EXPECT_EQ(encoded(bytes, {&widths, 1}), stream) << target;
  });
}

TEST(ByteCoder, IsNearTheEntropy) {
  const Bytes bytes = exponents(400'000, 3);
  std::array<double, 256> counts{};
  for (const std::byte byte : bytes) ++counts[std::to_integer<std::size_t>(byte)];
  double bits = 0;
  for (const double n : counts)
    if (n > 0) bits += n * std::log2(400'000 / n);
  const codec::ByteWidths widths = widths_of(bytes);
  EXPECT_LT(static_cast<double>(encoded(bytes, {&widths, 1}).size()), 1.003 * bits / 8 + 200);
}

TEST(ByteCoder, RefusesEveryDamagedByte) {
  const Bytes bytes = exponents(500, 4);
  const codec::ByteWidths widths = widths_of(bytes);
  const codec::ByteDecoder decoder({&widths, 1});
  const Bytes good = encoded(bytes, {&widths, 1});
  int refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const int flip : {1, 128}) {
      Bytes bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      Bytes result(bytes.size());
      try {
        decoder.decode(bad, {}, result);
      } catch (const Error&) {
        ++refused;
      }
    }
  // The states' ends tell nearly all; a file's digest tells the rest.
  EXPECT_GT(refused, static_cast<int>(2 * good.size()) - 10);
  for (std::size_t size = 0; size < good.size(); ++size) {
    Bytes result(bytes.size());
    EXPECT_THROW(decoder.decode(std::span(good).first(size), {}, result), Error) << size;
  }
  Bytes longer = good;
  longer.push_back({});
  longer.push_back({});
  Bytes result(bytes.size());
  EXPECT_THROW(decoder.decode(longer, {}, result), Error);
}

TEST(ByteCoder, RefusesMalformedTables) {
  const codec::ByteWidths widths = widths_of(exponents(5000, 5));
  Bytes good;
  codec::append_widths(good, widths);
  ByteReader in(good, "a table");
  EXPECT_EQ(codec::read_widths(in, "a table"), widths);
  const auto read = [](Bytes table) {
    ByteReader in(table, "a table");
    codec::read_widths(in, "a table");
  };
  Bytes beyond = good, more = good;
  beyond[0] = std::byte{250};  // the last value is above 255
  more.back() = static_cast<std::byte>(std::to_integer<int>(more.back()) + 1);  // above 4096
  EXPECT_THROW(read(beyond), Error);
  EXPECT_THROW(read(more), Error);
  EXPECT_THROW(read(Bytes(good.begin(), good.end() - 1)), Error);
  EXPECT_THROW(read({std::byte{3}, std::byte{0}, std::byte{0x90}, std::byte{0}}), Error);  // 4096
}

}  // namespace
}  // namespace gbcompress
