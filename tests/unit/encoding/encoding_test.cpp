#include "gbcompress/encoding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr Encoding kAll[] = {Encoding::kBinary, Encoding::kGray, Encoding::kOneHot};

template <typename F>
Errc code_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

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

TEST(Encoding, NamesGoBothWays) {
  for (Encoding e : kAll) EXPECT_EQ(parse_encoding(encoding_name(e)), e);
  EXPECT_EQ(parse_encoding("onehot"), std::nullopt);
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
    std::vector<Encoding> kernel_codes;
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
