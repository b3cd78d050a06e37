#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "artifact/integers/products.h"
#include "artifact/integers/transform.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/planes.h"
#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "unit/codec/lanes_parts.h"

namespace gbcompress {
namespace {

std::vector<float> normal(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  RandomStream(seed, "lossless").fill_normal(values, 0, 0.05f);
  return values;
}

TEST(Planes, GiveBackEveryBit) {
  std::vector<float> values = normal(1000, 1);
  const float odd[] = {0,
                       -0.0f,
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::denorm_min(),
                       -std::numeric_limits<float>::max()};
  std::copy(std::begin(odd), std::end(odd), values.begin() + 100);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
    for (const std::size_t n : {1u, 2u, 37u, 1000u}) {
      const std::vector<std::byte> raw = elements_of(std::span(values).last(n), dtype);
      const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
      EXPECT_EQ(unpack_planes(pack_planes(raw, size), raw.size(), size, "x"), raw)
          << dtype_name(dtype) << " " << n;
    }
}

TEST(Planes, TakeTheExponentsOfWeightsApart) {
  const std::vector<float> values = normal(200'000, 2);
  for (const auto& [dtype, most] : {std::pair{DType::kBF16, 0.67}, {DType::kF32, 0.84}}) {
    const std::vector<std::byte> raw = elements_of(values, dtype);
    const auto [packed, packing] = pack(raw, dtype_bits(dtype) / 8, true);
    EXPECT_EQ(packing, Packing::kPlanes);
    EXPECT_LT(static_cast<double>(packed.size()), most * static_cast<double>(raw.size()));
    ArtifactWriter writer("", "");
    writer.add_plain("w", dtype, {200'000}, raw);
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
    EXPECT_EQ(decode_tensor(reader, 0), raw);
  }
}

/// bfloat16 elements of rows of several scales, some of them zero, NaN or infinite.
std::vector<std::byte> scaled_rows(std::size_t n, std::uint64_t seed, std::size_t odd) {
  std::vector<float> values = normal(n, seed);
  for (std::size_t i = 0; i < n; ++i) values[i] *= static_cast<float>(1 << i / 1024 % 5);
  for (std::size_t i = 5; odd > 0 && i < n; i += odd)
    values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? -std::numeric_limits<float>::infinity() : 1e30f;
  return elements_of(values, DType::kBF16);
}

/// Bits of the frequencies of some bytes.
double entropy(const std::vector<unsigned>& symbols) {
  std::map<unsigned, double> counts;
  for (const unsigned symbol : symbols) ++counts[symbol];
  double bits = 0;
  for (const auto& [symbol, count] : counts)
    bits += count * std::log2(static_cast<double>(symbols.size()) / count);
  return bits;
}

TEST(Planes, SetZerosApart) {
  constexpr std::size_t kCount = 400'000;
  const RandomStream random(9, "pruned");
  for (const double share : {0.5, 0.9}) {
    std::vector<float> values = normal(kCount, 10);
    for (std::size_t i = 0; i < kCount; ++i)
      if (random.bits(i) < share * 4294967296.0) values[i] = 0;
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      const std::vector<std::byte> raw = elements_of(values, dtype);
      const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
      const std::vector<std::byte> packed = pack_planes(raw, size);
      ASSERT_EQ(unpack_planes(packed, raw.size(), size, "x"), raw);
      // Which elements are zeros, the exponents of the others, and all their other bits.
      const int exponent_bits = dtype == DType::kF16 ? 5 : 8;
      std::vector<unsigned> zeros, exponents;
      for (std::size_t i = 0; i < kCount; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, raw.data() + i * size, size);
        zeros.push_back(bits == 0);
        if (bits != 0) exponents.push_back(bits << (33 - 8 * size) >> (32 - exponent_bits));
      }
      const auto others = static_cast<double>(exponents.size()) *
                          static_cast<double>(dtype_bits(dtype) - exponent_bits);
      const double bound = (entropy(zeros) + entropy(exponents) + others) / 8;
      EXPECT_LT(static_cast<double>(packed.size()), 1.01 * bound) << dtype_name(dtype) << share;
    }
  }
}

TEST(Planes, KeepSignsOfZerosAndSubnormalNumbers) {
  std::vector<float> values = normal(5000, 11);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 3 != 0) values[i] = i % 2 == 0 ? 0.0f : -0.0f;
  for (const std::size_t i : {0u, 3u, 4998u}) values[i] = 3e-41f;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
    const std::vector<std::byte> raw = elements_of(values, dtype), none(raw.size());
    const std::vector<std::byte> packed = pack_planes(raw, size);
    EXPECT_EQ(unpack_planes(packed, raw.size(), size, "x"), raw) << dtype_name(dtype);
    EXPECT_EQ(unpack_planes(pack_planes(none, size), none.size(), size, "x"), none);
    EXPECT_LT(static_cast<double>(packed.size()), 0.55 * static_cast<double>(raw.size()));
  }
}

TEST(Planes, FollowTheScalesOfRows) {
  const std::vector<std::byte> raw = scaled_rows(400'000, 4, 0);
  std::vector<std::byte> apart;
  double alone = 0;
  for (int scale = 0; scale < 5; ++scale) {
    apart = elements_of(normal(80'000, static_cast<std::uint64_t>(20 + scale)), DType::kBF16);
    alone += static_cast<double>(pack_planes(apart, 2).size());
  }
  EXPECT_LT(static_cast<double>(pack_planes(raw, 2).size()), 1.005 * alone);
}

/// A form and its tables take few bytes, and bits of mantissas are stored as they are.
TEST(Planes, TakeFewBytesBesideTheEntropy) {
  for (const std::size_t n : {64u, 300u, 1200u, 8192u, 60'000u}) {
    const auto size =
        static_cast<double>(pack_planes(elements_of(normal(n, 9), DType::kBF16), 2).size());
    EXPECT_LT(size, 1.33 * static_cast<double>(n) + 45) << n;
  }
}

TEST(Planes, OfManyStripesAreMadeOnAnyThreadsAndReadOneByOne) {
  const std::vector<std::byte> raw = scaled_rows(900'001, 5, 999);
  const std::vector<std::byte> packed = pack_planes(raw, 2);
  std::vector<std::byte> made;
  PlanesWriter(raw, 2).write(3, [&](std::span<const std::byte> piece) {
    made.insert(made.end(), piece.begin(), piece.end());
  });
  EXPECT_EQ(made, packed);
  const PlanesReader reader(packed, raw.size(), 2, "x");
  ASSERT_EQ(reader.stripes(), 4u);
  std::vector<std::byte> scratch(kPlaneStripe);
  for (const std::size_t i : {3u, 0u, 2u}) {
    std::vector<std::byte> stripe(reader.bytes_of(i));
    reader.read(i, stripe, scratch);
    EXPECT_TRUE(std::equal(stripe.begin(), stripe.end(), raw.begin() + i * kPlaneStripe)) << i;
  }
}

/// What a sample does not show.
TEST(Planes, EscapeWhatIsRare) {
  for (const std::size_t size : {1u, 2u, 4u, 8u}) {
    std::vector<std::byte> raw = elements_of(normal(700'000, 6), DType::kF32);
    for (const std::size_t place : {0u, 1'000'003u, 2'799'990u})
      for (std::size_t i = 0; i < 9; ++i) raw[place + i] = static_cast<std::byte>(29 * i);
    EXPECT_EQ(unpack_planes(pack_planes(raw, size), raw.size(), size, "x"), raw) << size;
  }
}

TEST(Planes, RefuseEveryDamagedByte) {
  const std::vector<std::byte> raw = scaled_rows(3000, 7, 50);
  const std::vector<std::byte> good = pack_planes(raw, 2);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{16};
    try {
      EXPECT_EQ(unpack_planes(bad, raw.size(), 2, "x").size(), raw.size());
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::kCorrupt || error.code() == Errc::kTruncated) << at;
    }
  }
  for (std::size_t size = 0; size < good.size(); size += 7)
    EXPECT_THROW(unpack_planes(std::span(good).first(size), raw.size(), 2, "x"), Error) << size;
}

TEST(Planes, LeaveWhatRepeatsToZstd) {
  std::vector<float> values = normal(1000, 3);
  for (int i = 0; i < 7; ++i) values.insert(values.end(), values.begin(), values.end());
  const std::vector<std::byte> raw = elements_of(values, DType::kF32);
  EXPECT_LT(pack(raw, 4, true).first.size(), raw.size() / 50);
}

/// The basis of a Fourier transform repeats few values at long distances; fast zstd misses them.
TEST(Planes, LeaveSinesUnderAWindowToZstd) {
  constexpr int kSide = 256;
  std::vector<float> values;
  for (int k = 0; k < kSide; ++k)
    for (int n = 0; n < kSide; ++n) {
      const double window = 0.5 - 0.5 * std::cos(2 * M_PI * n / kSide);
      values.push_back(static_cast<float>(window * std::cos(2 * M_PI * (k * n % kSide) / kSide)));
    }
  const std::vector<std::byte> raw = elements_of(values, DType::kF32);
  const auto [packed, packing] = pack(raw, 4, true);
  EXPECT_EQ(packing, Packing::kZstd);
  EXPECT_LT(packed.size(), raw.size() / 3);
}

/// Found by fuzzing: the header's parser checks both, and unpacking does not rely on it.
TEST(Packing, RefusesSizesThatDoNotFit) {
  const std::vector<std::byte> four(4), planes = pack_planes(four, 4);
  const auto refused = [&](Packing packing, std::span<const std::byte> stored, std::int64_t raw,
                           std::int64_t element) {
    return code_of([&] { unpack(stored, packing, raw, element, "x"); });
  };
  EXPECT_EQ(refused(Packing::kRaw, four, 5, 1), Errc::kCorrupt);
  EXPECT_EQ(refused(Packing::kRaw, four, 3, 1), Errc::kCorrupt);
  for (const std::int64_t element : {1, 3})
    EXPECT_EQ(refused(Packing::kPlanes, planes, 4, element), Errc::kCorrupt) << element;
  EXPECT_EQ(refused(Packing::kPlanes, planes, 3, 4), Errc::kCorrupt);
}

TEST(Cosines, KeepSquaresAndComeBack) {
  const std::vector<std::int64_t> shapes[] = {{2}, {7}, {5, 6}, {3, 4, 5}, {2, 3, 2, 8}, {300, 2}};
  for (const auto& shape : shapes) {
    std::size_t n = 1;
    for (const std::int64_t side : shape) n *= static_cast<std::size_t>(side);
    const std::vector<float> values = normal(n, n);
    for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
      const std::vector<float> cosines = to_cosines(values, shape, axis);
      const std::vector<float> back = from_cosines(cosines, shape, axis);
      double squares = 0, same = 0;
      for (std::size_t i = 0; i < n; ++i) {
        squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
        same += static_cast<double>(cosines[i]) * static_cast<double>(cosines[i]);
        EXPECT_NEAR(back[i], values[i], 2e-8) << i;
      }
      EXPECT_NEAR(same, squares, 1e-6 * squares);
    }
  }
}

// Of all levels of the processor, and of numbers of rows and columns that fill no vectors.
TEST(Cosines, ProductsHaveTheBitsOfSumsInOrder) {
  const ProductShape shapes[] = {{1, 1, 1}, {3, 7, 5}, {4, 2, 256}, {9, 33, 301}, {6, 16, 513}};
  for (const ProductShape& shape : shapes) {
    const std::size_t rows = shape.rows, terms = shape.terms, columns = shape.columns;
    const std::vector<float> left = normal(rows * terms, 7 + rows);
    const std::vector<float> right = normal(terms * columns, 9 + columns);
    const std::vector<double> wide_left(left.begin(), left.end());
    const std::vector<double> wide_right(right.begin(), right.end());
    std::vector<float> expected;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::size_t b = 0; b < terms; ++b)
          sum += wide_left[r * terms + b] * wide_right[b * columns + c];
        expected.push_back(static_cast<float>(sum));
      }
    testing_codec::on_every_target([&](const char* target) {
      std::vector<float> products(rows * columns), others(rows * columns);
      multiply_in_order(wide_left.data(), right.data(), shape, products.data());
      multiply_in_order(left.data(), wide_right.data(), shape, others.data());
      EXPECT_EQ(products, expected) << target;
      EXPECT_EQ(others, expected) << target;
    });
  }
}

TEST(Cosines, OfAWaveAreOneNumber) {
  std::vector<float> values;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 3; ++j)
      values.push_back(
          static_cast<float>((j + 1) * std::cos(3.14159265358979 * 5 * (2 * i + 1) / 32)));
  const std::vector<float> cosines = to_cosines(values, {16, 3}, 0);
  for (int k = 0; k < 16; ++k)
    for (int j = 0; j < 3; ++j)
      EXPECT_NEAR(cosines[static_cast<std::size_t>(3 * k + j)],
                  k == 5 ? (j + 1) * std::sqrt(8.0) : 0, 1e-6);
}

TEST(Cosines, AreOfWeightsWithStepsAlone) {
  ArtifactWriter writer("", "");
  CodedValues values{.grid = {2, 3, 0}, .integers = {0, 1, 2, 3, 4, 5}, .axis = 2};
  const auto add = [&](DType dtype) { writer.add_coded("w", dtype, {2, 3}, values); };
  EXPECT_EQ(code_of([&] { add(DType::kF32); }), Errc::kUsage);
  values.axis = 1;
  EXPECT_EQ(code_of([&] { add(DType::kI32); }), Errc::kUsage);
  add(DType::kF32);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
  EXPECT_EQ(reader.tensors()[0].axis, 1);
  EXPECT_EQ(decode_tensor(reader, 0), elements_of(tensor_floats(values, {2, 3}), DType::kF32));
  EXPECT_NE(decode_tensor(reader, 0), elements_of(coded_floats(values), DType::kF32));
}

TEST(Nibbles, ComeBackInEveryType) {
  for (const DType dtype : {DType::kU8, DType::kI8, DType::kI32, DType::kU64}) {
    CodedValues values{.grid = nibble_grid({3, 4}, dtype), .step = 7, .nibbles = true};
    const RandomStream noise(7, "nibbles");
    for (std::int64_t i = 0; i < values.grid.size(); ++i)
      values.integers.push_back(
          static_cast<std::int32_t>(noise.bits(static_cast<std::uint64_t>(i)) % 16) - 7);
    ArtifactWriter writer("", "");
    writer.add_coded("w", dtype, {3, 4}, values);
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
    const std::vector<std::byte> bytes = decode_tensor(reader, 0);
    ASSERT_EQ(2 * bytes.size(), values.integers.size());
    for (std::size_t i = 0; i < values.integers.size(); ++i)
      EXPECT_EQ(std::to_integer<int>(bytes[i / 2]) >> (i % 2 * 4) & 15, values.integers[i] + 7);
    values.integers[0] = 9;  // 16 with the offset
    EXPECT_EQ(code_of([&] { coded_elements(values, dtype); }), Errc::kCorrupt);
  }
  ArtifactWriter writer("", "");
  const CodedValues other{.grid = {1, 4, 0}, .integers = {0, 0, 0, 0}, .nibbles = true};
  EXPECT_EQ(code_of([&] { writer.add_coded("w", DType::kU8, {4}, other); }), Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { writer.add_coded("w", DType::kBool, {2}, other); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
