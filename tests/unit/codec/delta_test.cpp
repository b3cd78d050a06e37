// Exact changes: every bit comes back, whatever the elements are; damaged sections are refused.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/random.h"
#include "codec/delta/change.h"
#include "codec/delta/elements.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "unit/codec/lanes_parts.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using codec::apply_change;
using codec::ChangeForm;
using codec::ChangeGrid;
using codec::encode_change;

constexpr DType kTypes[] = {DType::kBool,   DType::kU8,        DType::kI8,     DType::kU16,
                            DType::kI16,    DType::kU32,       DType::kI32,    DType::kU64,
                            DType::kI64,    DType::kF16,       DType::kBF16,   DType::kF32,
                            DType::kF64,    DType::kF8E5M2,    DType::kF8E4M3, DType::kF8E5M2FNUZ,
                            DType::kF8E8M0, DType::kF8E4M3FNUZ};

Bytes random_bytes(std::size_t n, std::uint64_t seed) {
  const RandomStream noise(seed, "delta");
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(noise.bits(i));
  return bytes;
}

/// Normal numbers as bfloat16, and the same with about one element in `rarity` moved by one unit.
Bytes weights(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  RandomStream(seed, "weights").fill_normal(values, 0, 0.02f);
  Bytes bytes;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bytes.push_back(static_cast<std::byte>(bits >> 16));
    bytes.push_back(static_cast<std::byte>(bits >> 24));
  }
  return bytes;
}

Bytes moved(Bytes base, std::size_t rarity, std::uint64_t seed) {
  const RandomStream noise(seed, "moved");
  for (std::size_t i = 0; i < base.size() / 2; ++i) {
    if (noise.bits(i) % rarity != 0) continue;
    auto element = codec::delta::load<std::uint16_t>(base.data() + 2 * i);
    element = static_cast<std::uint16_t>(element + (noise.bits(i) >> 20 & 1 ? 1 : -1));
    codec::delta::store(base.data() + 2 * i, element);
  }
  return base;
}

/// Encodes in each form, and expects the elements back.
void expect_back(DType dtype, ChangeGrid grid, const Bytes& base, const Bytes& now) {
  for (const std::optional<ChangeForm> form :
       {std::optional<ChangeForm>(), {ChangeForm::kSparse}, {ChangeForm::kDense}}) {
    const Bytes section = encode_change(dtype, grid, base, now, form);
    testing_codec::on_every_target([&](const char* target) {
      EXPECT_EQ(section, encode_change(dtype, grid, base, now, form)) << target;
      Bytes elements = base;
      apply_change(dtype, grid, section, elements);
      EXPECT_EQ(elements, now) << dtype_name(dtype) << " " << grid.rows << " x " << grid.cols << " "
                               << target;
    });
  }
}

TEST(ExactDelta, GivesBackEveryTypeAndShape) {
  for (const DType dtype : kTypes) {
    const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
    for (const ChangeGrid grid : {ChangeGrid{1, 1}, {1, 63}, {1, 64}, {1, 65}, {70, 1}, {9, 130}}) {
      const auto n = static_cast<std::size_t>(grid.rows * grid.cols);
      const Bytes base = random_bytes(n * size, 1), other = random_bytes(n * size, 2);
      expect_back(dtype, grid, base, base);
      expect_back(dtype, grid, base, other);  // any bits: NaNs with payloads among them
      Bytes last = base;
      last.back() ^= std::byte{0x80};
      expect_back(dtype, grid, base, last);
    }
  }
}

TEST(ExactDelta, KeepsZerosDenormalsInfinitiesAndPayloadsApart) {
  const std::uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007FFFFF,
                                   0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001,
                                   0x7FC00000, 0xFFC00001, 0xFFFFFFFF, 0x3F800000};
  Bytes base, now;
  for (const std::uint32_t a : special)
    for (const std::uint32_t b : special)
      for (int i = 0; i < 4; ++i) {
        base.push_back(static_cast<std::byte>(a >> (8 * i)));
        now.push_back(static_cast<std::byte>(b >> (8 * i)));
      }
  expect_back(DType::kF32, {14, 14}, base, now);
  expect_back(DType::kBF16, {28, 14}, base, now);
  EXPECT_EQ(codec::delta::to_ordered<std::uint32_t>(0, true) - 1,
            codec::delta::to_ordered<std::uint32_t>(0x80000000, true));
}

/// Levels of large tensors are known from a part of them.
TEST(ExactDelta, GivesBackLargeTensors) {
  const Bytes base = weights(700'000, 3);
  expect_back(DType::kBF16, {700, 1000}, base, moved(base, 2, 4));
  expect_back(DType::kBF16, {1, 700'000}, base, moved(base, 300, 5));
  Bytes now = base;
  for (std::size_t i = 0; i < 2048; ++i) now[2 * i] ^= std::byte{1};
  expect_back(DType::kBF16, {700, 1000}, base, now);
  const Bytes whole(std::size_t{2} << 18, std::byte{7});
  expect_back(DType::kBF16, {512, 512}, whole, Bytes(whole.size(), std::byte{8}));
}

/// Lines end within runs of 256 elements and beyond them; tensors of few elements, and constant
/// ones.
TEST(ExactDelta, GivesBackLinesOfAnyLength) {
  for (const ChangeGrid grid : {ChangeGrid{3, 127},
                                {3, 128},
                                {3, 129},
                                {5, 300},
                                {2, 8192},
                                {2, 8193},
                                {1, 1025},
                                {1, 1},
                                {1, 2},
                                {1, 5},
                                {257, 1}}) {
    const auto n = static_cast<std::size_t>(grid.rows * grid.cols);
    const Bytes base = weights(n, 12);
    expect_back(DType::kBF16, grid, base, moved(base, 2, 13));
    expect_back(DType::kBF16, grid, base, random_bytes(2 * n, 14));
    expect_back(DType::kF32, {grid.rows, grid.cols}, random_bytes(4 * n, 15),
                random_bytes(4 * n, 16));
    expect_back(DType::kBF16, grid, Bytes(2 * n, std::byte{7}), Bytes(2 * n, std::byte{8}));
  }
}

/// One element in a hundred, one unit up or down: places take 8.1 bits and directions one.
TEST(ExactDelta, TakesAboutTheEntropyOfRareChanges) {
  const Bytes base = weights(400'000, 6), now = moved(base, 100, 7);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < base.size(); i += 2) changed += base[i] != now[i];
  const Bytes section = encode_change(DType::kBF16, {400, 1000}, base, now);
  EXPECT_EQ(section[0], static_cast<std::byte>(ChangeForm::kSparse));
  EXPECT_LT(8.0 * static_cast<double>(section.size()), 9.6 * static_cast<double>(changed));
}

/// Equal moves of weights of different exponents: the exponent tells how many units they are.
TEST(ExactDelta, TakesLessThanOrderZeroEntropyWhereAllMove) {
  const std::size_t n = 300'000;
  std::vector<float> values(n), moves(n);
  RandomStream(8, "weights").fill_normal(values, 0, 0.02f);
  RandomStream(9, "moves").fill_normal(moves, 0, 1e-4f);
  std::vector<float> next(n);
  std::unordered_map<std::uint32_t, double> counts;
  for (std::size_t i = 0; i < n; ++i) {
    next[i] = values[i] + moves[i];
    std::uint32_t a, b;
    std::memcpy(&a, &values[i], 4);
    std::memcpy(&b, &next[i], 4);
    ++counts[(codec::delta::to_ordered(b, true) - codec::delta::to_ordered(a, true)) >> 12];
  }
  double entropy = 0;  // of the differences without their 12 lowest bits, and these
  for (const auto& [difference, count] : counts)
    entropy += count * (12 + std::log2(static_cast<double>(n) / count));
  const auto bytes = [](const std::vector<float>& from) {
    const auto all = std::as_bytes(std::span(from));
    return Bytes(all.begin(), all.end());
  };
  const Bytes section = encode_change(DType::kF32, {300, 1000}, bytes(values), bytes(next));
  EXPECT_EQ(section[0], static_cast<std::byte>(ChangeForm::kDense));
  // Half a bit of each element's 19.5; the lower bits of a float32's difference are noise.
  EXPECT_LT(8 * static_cast<double>(section.size()), 0.98 * entropy);
}

/// Elements of a float type nearest to values.
Bytes elements_like(DType dtype, const std::vector<float>& values) {
  Bytes bytes;
  const auto add = [&](const auto& element) {
    const auto own = std::as_bytes(std::span(&element, 1));
    bytes.insert(bytes.end(), own.begin(), own.end());
  };
  for (const float value : values) {
    if (dtype == DType::kF64)
      add(static_cast<double>(value));
    else if (dtype == DType::kF32)
      add(value);
    else
      add(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  }
  return bytes;
}

/// The base is what a uniform quantizer leaves: within its cell of one step every value is as
/// likely. So a float costs as many bits as its cell holds floats like it.
TEST(ExactDelta, TakesTheBitsThatQuantizationLeavesOpen) {
  const std::size_t rows = 200, cols = 1500, n = rows * cols;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64})
    for (const float share : {1.f, 0.25f, 0.02f}) {
      const int mantissa_bits = codec::delta::form_of(dtype)->mantissa_bits;
      std::vector<float> values(n), drafts(n);
      RandomStream(20, "cells").fill_normal(values, 0, 0.02f);
      double bits = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const float scale = 1 + static_cast<float>(i / cols % 7);
        values[i] *= scale;
        const float step = 0.02f * scale * share;
        drafts[i] = std::nearbyint(values[i] / step) * step;
        const double apart = std::ldexp(1.0, std::ilogb(values[i]) - mantissa_bits);
        bits += std::max(0.0, std::log2(static_cast<double>(step) / apart));
      }
      const Bytes base = elements_like(dtype, drafts), now = elements_like(dtype, values);
      const Bytes section = encode_change(dtype, {rows, cols}, base, now);
      Bytes elements = base;
      apply_change(dtype, {rows, cols}, section, elements);
      EXPECT_EQ(elements, now);
      // Of steps of a whole deviation the density falls within a cell, and of steps of few floats
      // the ends of cells count.
      const double more = share < 0.1f && mantissa_bits < 10 ? 0.35 : 0.15;
      EXPECT_LT(8 * static_cast<double>(section.size()), bits + more * n)
          << dtype_name(dtype) << " " << share << ": " << bits / n << " bits an element";
    }
}

/// Where elements are those of the base, but for their sign, far from the others or beyond their
/// bins.
TEST(ExactDelta, GivesBackZerosAndFarElementsAmongBins) {
  const std::size_t n = 20'000;
  const RandomStream noise(21, "bins");
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64, DType::kF8E4M3}) {
    const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
    const Bytes random = random_bytes(n * size, 22);
    Bytes base = elements_like(DType::kF32, std::vector<float>(n, 0.5f)), now = base;
    if (size != 4) base.resize(n * size), now.resize(n * size);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t kind = noise.bits(i) % 16;
      std::byte* to = now.data() + i * size;
      const std::byte* from = random.data() + i * size;
      if (kind < 8) std::memset(base.data() + i * size, 0, size);
      if (kind < 4) std::memset(to, 0, size);  // pruned
      if (kind == 4) std::memset(to, 0, size), to[size - 1] = std::byte{0x80};
      if (kind > 4) std::memcpy(to, from, size);
      if (kind == 5) to[size - 1] &= std::byte{0x80};  // small
      if (kind == 6) std::memset(to, 0xFF, size);      // a NaN
    }
    expect_back(dtype, {1, static_cast<std::int64_t>(n)}, base, now);
    expect_back(dtype, {40, static_cast<std::int64_t>(n / 40)}, base, now);
  }
}

TEST(ExactDelta, RefusesWhatHasNoDifferences) {
  const Bytes bytes(16);
  const auto refused = [&](DType dtype, ChangeGrid grid) {
    return code_of([&] { encode_change(dtype, grid, bytes, bytes); });
  };
  EXPECT_EQ(refused(DType::kC64, {1, 2}), Errc::kUsage);
  EXPECT_EQ(refused(DType::kF4, {1, 32}), Errc::kUsage);
  EXPECT_EQ(refused(DType::kF32, {2, 3}), Errc::kUsage);
  EXPECT_EQ(refused(DType::kF32, {0, 4}), Errc::kUsage);
  EXPECT_EQ(refused(DType::kF32, {std::int64_t{1} << 62, 4}), Errc::kUsage);
  EXPECT_EQ(code_of([&] { encode_change(DType::kF32, {1, 4}, Bytes(12), bytes); }), Errc::kUsage);
}

/// Every cut is an error, and a flipped bit one or other elements: nothing is stored twice, so that
/// hardly any bit is without effect.
TEST(ExactDelta, SurvivesDamage) {
  const Bytes base = weights(5000, 10), moved_ones = moved(base, 30, 11),
              others = weights(5000, 23);
  for (const auto& [form, now] : {std::pair(ChangeForm::kSparse, moved_ones),
                                  {ChangeForm::kDense, moved_ones},
                                  {ChangeForm::kDense, others}}) {
    const Bytes section = encode_change(DType::kBF16, {50, 100}, base, now, form);
    std::size_t unnoticed = 0;
    for (std::size_t cut = 0; cut < section.size(); ++cut) {
      Bytes elements = base;
      EXPECT_THROW(apply_change(DType::kBF16, {50, 100}, std::span(section).first(cut), elements),
                   Error);
    }
    for (std::size_t bit = 0; bit < 8 * section.size(); ++bit) {
      Bytes damaged = section, elements = base;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      try {
        apply_change(DType::kBF16, {50, 100}, damaged, elements);
        unnoticed += elements == now;
      } catch (const Error&) {
      }
    }
    EXPECT_LT(unnoticed, section.size() / 8);
    Bytes longer = section, elements = base;
    longer.resize(longer.size() + 2);
    EXPECT_THROW(apply_change(DType::kBF16, {50, 100}, longer, elements), Error);
    longer = section;
    longer[0] = std::byte{3};
    EXPECT_EQ(code_of([&] {
                apply_change(DType::kBF16, {50, 100}, longer, elements);
              }),
              Errc::kUnsupported);
  }
}

}  // namespace
}  // namespace gbcompress
