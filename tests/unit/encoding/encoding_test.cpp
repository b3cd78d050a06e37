#include "gbcompress/gnet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.h"
#include "encoding/waves.h"
#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

constexpr Encoding kAll[] = {Encoding::kBinary, Encoding::kGray, Encoding::kOneHot};

std::vector<float> code(const CodeTable& table, std::int64_t n) {
  return {table.values.begin() + n * table.width, table.values.begin() + (n + 1) * table.width};
}

TEST(Encoding, WidthsFollowTheirDefinition) {
  EXPECT_EQ(code_width(Encoding::kBinary, 1), 1);
  for (std::int64_t n = 2; n < 3000; ++n) {
    const auto bits = static_cast<std::int64_t>(std::ceil(std::log2(static_cast<double>(n))));
    EXPECT_EQ(code_width(Encoding::kBinary, n), bits) << n;
    EXPECT_EQ(code_width(Encoding::kGray, n), bits) << n;
    EXPECT_EQ(code_width(Encoding::kOneHot, n), n);
  }
  for (Encoding e : kAll) {
    EXPECT_EQ(code_of([&] { code_width(e, 0); }), Errc::kUsage);
    EXPECT_EQ(code_of([&] { encode_axis(e, -3); }), Errc::kUsage);
  }
}

TEST(Encoding, KnownCodes) {
  EXPECT_EQ(code(encode_axis(Encoding::kBinary, 6), 4), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(code(encode_axis(Encoding::kBinary, 6), 3), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(code(encode_axis(Encoding::kGray, 6), 4), (std::vector<float>{1, 1, 0}));
  EXPECT_EQ(code(encode_axis(Encoding::kGray, 6), 3), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(code(encode_axis(Encoding::kOneHot, 3), 2), (std::vector<float>{0, 0, 1}));
}

TEST(Encoding, CodesAreDistinctAndGrayNeighboursDifferInOneBit) {
  for (std::int64_t n : {1, 2, 3, 7, 8, 9, 100, 257})
    for (Encoding e : kAll) {
      const CodeTable table = encode_axis(e, n);
      std::set<std::vector<float>> seen;
      for (std::int64_t i = 0; i < n; ++i) {
        seen.insert(code(table, i));
        if (e != Encoding::kGray || i == 0) continue;
        int different = 0;
        for (std::int64_t b = 0; b < table.width; ++b)
          different += code(table, i)[b] != code(table, i - 1)[b];
        EXPECT_EQ(different, 1);
      }
      EXPECT_EQ(static_cast<std::int64_t>(seen.size()), n);
    }
}

TEST(Encoding, TextGoesBothWays) {
  for (const char* text : {"binary", "gray", "one_hot", "fourier:1", "fourier:1024",
                           "pixel:28x28:4", "pixel:784:1", "pixel:2x3x4:6", "latent:7"}) {
    const auto code = parse_code(text);
    ASSERT_TRUE(code) << text;
    EXPECT_EQ(code_text(*code), text);
  }
  EXPECT_EQ(parse_code("fourier"), AxisCode(Encoding::kFourier, 4));
  EXPECT_EQ(parse_code("latent"), AxisCode(Encoding::kLatent, 2));
  EXPECT_EQ(parse_code("pixel:5x6"), AxisCode(Encoding::kPixel, 4, {5, 6}));
  for (const char* text :
       {"", "onehot", "binary:3", "fourier:0", "fourier:1025", "fourier:", "fourier:x",
        "fourier:4:4", "pixel", "pixel:", "pixel:3x", "pixel:x3", "pixel:3x-1",
        "pixel:3:", "latent:-1", "pixel:1x1x1x1x1x1x1x1x1", "gray "})
    EXPECT_EQ(parse_code(text), std::nullopt) << text;
}

TEST(Encoding, WavesAreCosinesAndSines) {
  const CodeTable fourier = encode_axis({Encoding::kFourier, 3}, 10);
  const CodeTable pixel = encode_axis({Encoding::kPixel, 3, {4, 2, 5}}, 40);
  ASSERT_EQ(fourier.width, 6);
  ASSERT_EQ(pixel.width, 3 + 1 + 3) << "a side of 2 has one cosine";
  const double pi = std::acos(-1.0);
  for (std::int64_t i = 0; i < 10; ++i)
    for (int f = 1; f <= 3; ++f) {
      const double angle = 2 * pi * f * (i + 0.5) / 10;
      EXPECT_NEAR(code(fourier, i)[2 * f - 2], std::sqrt(2) * std::sin(angle), 2e-7);
      EXPECT_NEAR(code(fourier, i)[2 * f - 1], std::sqrt(2) * std::cos(angle), 2e-7);
    }
  for (std::int64_t n = 0; n < 40; ++n) {
    const std::int64_t at[] = {n / 10, n / 5 % 2, n % 5}, sides[] = {4, 2, 5};
    std::size_t c = 0;
    for (int d = 0; d < 3; ++d)
      for (std::int64_t f = 1; f <= std::min<std::int64_t>(3, sides[d] - 1); ++f)
        EXPECT_NEAR(code(pixel, n)[c++], std::sqrt(2) * std::cos(pi * f * (at[d] + 0.5) / sides[d]),
                    2e-7);
  }
  for (const CodeTable* table : {&fourier, &pixel})
    for (std::int64_t c = 0; c < table->width; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t n = 0; n < table->count; ++n) {
        const double v = table->values[static_cast<std::size_t>(n * table->width + c)];
        sum += v;
        squares += v * v;
      }
      EXPECT_NEAR(sum, 0, 1e-5);
      EXPECT_NEAR(squares / table->count, 1, 1e-5);
    }
}

TEST(Encoding, CosinesAreRightToTheLastBitsOfDouble) {
  for (std::int64_t q : {1, 2, 3, 7, 28, 784, 11008})
    for (std::int64_t p = 0; p < 6 * q; p += q / 50 + 1) {
      const long double exact = std::cos(std::acos(-1.0L) * p / q);
      ASSERT_NEAR(cos_pi(p, q), static_cast<double>(exact), 4e-16) << p << "/" << q;
    }
  EXPECT_EQ(cos_pi(0, 5), 1);
  EXPECT_EQ(cos_pi(5, 5), -1);
  EXPECT_EQ(cos_pi(5, 10), 0);
}

TEST(Encoding, WavesAndTrainedCodesAreNotNormalisedWithTheOthers) {
  const AxisCode wave(Encoding::kFourier, 2), latent(Encoding::kLatent, 3);
  const TileCodes mixed = encode_tile(wave, 6, Encoding::kBinary, 5, {}, {});
  EXPECT_EQ(mixed.rows.values, encode_axis(wave, 6).values);
  // Binary codes alone: mean 0 and deviation 1 over 6 * 5 positions of 3 inputs.
  double sum = 0, squares = 0;
  for (float v : mixed.cols.values) sum += 6 * v, squares += 6 * v * v;
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_NEAR(squares / (6 * 5 * 3 - 1), 1, 1e-5);
  const TileCodes trained = encode_tile(latent, 6, wave, 5, {}, {});
  EXPECT_TRUE(trained.rows.trained);
  EXPECT_TRUE(trained.rows.values.empty());
  EXPECT_EQ(trained.inputs(), 7);
  EXPECT_EQ(code_of([&] { encode_tile(wave, 2, wave, 2, {latent}, {3}); }), Errc::kUsage);
}

TEST(Encoding, RefusesCodesThatCannotBe) {
  using E = Encoding;
  EXPECT_EQ(code_of([] { code_width(E::kBinary, 0); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kFourier, 0}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kLatent, 1025}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kGray, 1}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kPixel, 2}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kPixel, 2, {3, 2}}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kPixel, 2, {-3, -3}}, 9); }), Errc::kUsage);
  EXPECT_EQ(code_of([] { code_width({E::kFourier, 2, {9}}, 9); }), Errc::kUsage);
}

TEST(Encoding, RefusesTablesBeyondTheLimit) {
  EXPECT_EQ(code_of([] { encode_axis(Encoding::kOneHot, (1 << 14) + 1); }), Errc::kLimit);
  EXPECT_EQ(code_of([] { encode_axis(Encoding::kOneHot, std::int64_t{1} << 40); }), Errc::kLimit);
  EXPECT_EQ(code_of([] { encode_axis(Encoding::kBinary, std::int64_t{1} << 60); }), Errc::kLimit);
  EXPECT_EQ(code_of([] {
              encode_tile(Encoding::kBinary, 2, Encoding::kBinary, 2, {Encoding::kOneHot}, {});
            }),
            Errc::kShapeMismatch);
}

/// All inputs of all positions, one after another, before normalisation.
std::vector<double> materialise(const CodeTable& rows, const CodeTable& cols,
                                const std::vector<CodeTable>& axes) {
  std::vector<double> all;
  std::vector<std::int64_t> position(axes.size());
  for (std::int64_t i = 0; i < rows.count; ++i)
    for (std::int64_t j = 0; j < cols.count; ++j) {
      for (bool more = true; more;) {
        for (float v : code(rows, i)) all.push_back(v);
        for (float v : code(cols, j)) all.push_back(v);
        for (std::size_t d = 0; d < axes.size(); ++d)
          for (float v : code(axes[d], position[d])) all.push_back(v);
        more = false;
        for (std::size_t d = axes.size(); d-- > 0 && !more;) {
          more = ++position[d] < axes[d].count;
          if (!more) position[d] = 0;
        }
      }
    }
  return all;
}

TEST(Encoding, NormalisesOverAllPositionsAndInputs) {
  RandomStream random(1, "encoding test");
  std::uint64_t index = 0;
  const auto roll = [&](std::int64_t low, std::int64_t high) {
    return low + random.bits(index++) % (high - low + 1);
  };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const Encoding row = kAll[roll(0, 2)], col = kAll[roll(0, 2)];
    const auto rows = roll(1, 9), cols = roll(1, 9);
    std::vector<AxisCode> kernel_codes;
    std::vector<std::int64_t> dims;
    std::vector<CodeTable> axes;
    for (auto d = roll(0, 3); d > 0; --d) {
      kernel_codes.push_back(kAll[roll(0, 2)]);
      dims.push_back(roll(1, 4));
      axes.push_back(encode_axis(kernel_codes.back(), dims.back()));
    }
    const TileCodes codes = encode_tile(row, rows, col, cols, kernel_codes, dims);

    const auto raw = materialise(encode_axis(row, rows), encode_axis(col, cols), axes);
    double sum = 0, squares = 0;
    for (double v : raw) sum += v;
    const double mean = sum / static_cast<double>(raw.size());
    for (double v : raw) squares += (v - mean) * (v - mean);
    const double deviation =
        squares > 0 ? std::sqrt(squares / static_cast<double>(raw.size() - 1)) : 1;
    std::vector<double> got = materialise(codes.rows, codes.cols, {codes.kernel});
    ASSERT_EQ(got.size(), raw.size());
    for (std::size_t n = 0; n < raw.size(); ++n)
      ASSERT_NEAR(got[n], (raw[n] - mean) / deviation, 1e-6 * (1 + std::abs(got[n])));
  }
}

TEST(Encoding, ConstantCodesAreOnlyCentred) {
  for (Encoding e : {Encoding::kBinary, Encoding::kOneHot}) {
    const TileCodes codes = encode_tile(e, 1, e, 1, {}, {});
    EXPECT_EQ(codes.inputs(), 2);
    EXPECT_EQ(codes.kernel.width, 0);
    EXPECT_EQ(codes.kernel.count, 1);
    for (float v : codes.rows.values) EXPECT_EQ(v, 0.0f);
    for (float v : codes.cols.values) EXPECT_EQ(v, 0.0f);
  }
}

}  // namespace
}  // namespace gbcompress
