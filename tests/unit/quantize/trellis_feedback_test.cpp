/// Error feedback to dependent integers: column_order(), Beam, round_dependent().
#include "quantize/feedback/trellis_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codec/lanes/layout.h"
#include "gbcompress/error.h"
#include "moments.h"

namespace gbcompress {
namespace {

using testing::moments;
using testing::normals;

constexpr double kDamp = 0.02;

struct Made {
  Made(std::int64_t rows, std::int64_t cols, bool lanes, std::uint64_t seed = 1)
      : grid{.rows = rows, .cols = cols, .dependent = true, .lanes = lanes},
        values(normals(rows * cols, seed)),
        moment(moments(cols, cols + 20, seed + 10)),
        order(*column_order({&grid, 1})) {
    std::vector<double> ordered;
    for (const std::int64_t i : order.columns)
      for (const std::int64_t j : order.columns)
        ordered.push_back(moment[static_cast<std::size_t>(i * cols + j)]);
    model.columns = std::make_shared<const UpperFactor>(ordered, cols, kDamp);
  }

  /// Moments of the outputs, too.
  void take_rows() {
    of_rows = moments(grid.rows, grid.rows + 20, 99);
    model.rows = std::make_shared<const UpperFactor>(of_rows, grid.rows, kDamp);
  }

  DependentIntegers round(const Rounding& rounding) const {
    return round_dependent(grid, values, model, order, rounding);
  }
  std::vector<float> stored(const DependentIntegers& chosen, const Rounding& rounding) const {
    CodedValues coded{.grid = grid, .step = rounding.step};
    coded.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
    coded.integers = chosen.integers;
    return coded_floats(coded);
  }
  /// tr(G E A E'), both with the mean of the diagonal 1 and damped; G = I without moments of rows.
  double loss(const std::vector<float>& stored) const {
    const auto m = static_cast<std::size_t>(grid.rows), n = static_cast<std::size_t>(grid.cols);
    std::vector<double> e(m * n), ea(m * n), ge(m * n);
    for (std::size_t i = 0; i < e.size(); ++i)
      e[i] = static_cast<double>(values[i]) - static_cast<double>(stored[i]);
    const std::vector<double> a = damped(moment, n);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t j = 0; j < n; ++j) ea[i * n + j] += e[i * n + k] * a[k * n + j];
    ge = e;
    if (!of_rows.empty()) {
      const std::vector<double> g = damped(of_rows, m);
      std::ranges::fill(ge, 0.0);
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t k = 0; k < m; ++k)
          for (std::size_t j = 0; j < n; ++j) ge[i * n + j] += g[i * m + k] * e[k * n + j];
    }
    return std::inner_product(ge.begin(), ge.end(), ea.begin(), 0.0);
  }
  static std::vector<double> damped(const std::vector<double>& moment, std::size_t n) {
    double mean = 0;
    for (std::size_t j = 0; j < n; ++j) mean += moment[j * n + j] / static_cast<double>(n);
    std::vector<double> result = moment;
    for (double& value : result) value /= mean;
    for (std::size_t j = 0; j < n; ++j) result[j * n + j] += kDamp;
    return result;
  }

  IntegerGrid grid;
  std::vector<float> values;
  std::vector<double> moment, of_rows;
  ColumnOrder order;
  SecondOrder model;
};

TEST(ColumnOrder, GoesLaneByLaneWhereRowsHaveThemInTheSameColumns) {
  const IntegerGrid lanes{.rows = 10, .cols = 192, .dependent = true, .lanes = true};
  const auto order = column_order({&lanes, 1});
  ASSERT_TRUE(order);
  ASSERT_EQ(order->groups.size(), 64u);
  EXPECT_EQ(order->groups[5].first, 15);
  EXPECT_EQ(order->groups[5].lines, codec::lanes::Shape(lanes).block_lines);
  EXPECT_EQ(std::vector<std::int64_t>(order->columns.begin() + 15, order->columns.begin() + 18),
            (std::vector<std::int64_t>{5, 69, 133}));
  const IntegerGrid apart{.rows = 10, .cols = 100, .dependent = true, .lanes = true};
  EXPECT_FALSE(column_order({&apart, 1}));
  const IntegerGrid alone{.rows = 10, .cols = 192};
  EXPECT_FALSE(column_order({&alone, 1}));
  const std::vector<IntegerGrid> two{{.rows = 7, .cols = 3, .dependent = true},
                                     {.rows = 7, .cols = 2, .dependent = true}};
  const auto joint = column_order(two);
  ASSERT_TRUE(joint);
  ASSERT_EQ(joint->groups.size(), 2u);
  EXPECT_EQ(joint->groups[1].first, 3);
  std::vector<std::int64_t> natural(5);
  std::iota(natural.begin(), natural.end(), 0);
  EXPECT_EQ(joint->columns, natural);
}

TEST(TrellisFeedback, SaysWhatTheIntegersLose) {
  // The last one has two blocks of lanes.
  for (const Made& made :
       {Made(37, 45, false), Made(50, 128, true), Made((1 << 20) / 64 + 9, 64, true)}) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(made.grid.rows));
    for (std::size_t i = 0; i < rows.size(); i += 3) rows[i] = 8;
    const Rounding rounding{.step = -16, .row_steps = rows};
    const DependentIntegers chosen = made.round(rounding);
    const auto stored = made.stored(chosen, rounding);
    const double loss = made.loss(stored);
    EXPECT_NEAR(chosen.loss, loss, 1e-3 * loss);
    double error = 0;
    for (std::size_t i = 0; i < stored.size(); ++i)
      error += std::pow(static_cast<double>(stored[i] - made.values[i]), 2);
    EXPECT_NEAR(chosen.error, error, 1e-4 * error);
    Rounding many = rounding;
    many.threads = 3;
    EXPECT_EQ(made.round(many).integers, chosen.integers);
  }
}

TEST(TrellisFeedback, MomentsOfRowsMoveErrorsToLaterRows) {
  for (Made made : {Made(60, 45, false), Made(80, 128, true)}) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(made.grid.rows));
    for (std::size_t i = 0; i < rows.size(); i += 3) rows[i] = 4;
    const Rounding rounding{.step = -16, .row_steps = rows};
    const auto columns_alone = made.stored(made.round(rounding), rounding);
    made.take_rows();
    const DependentIntegers chosen = made.round(rounding);
    const double loss = made.loss(made.stored(chosen, rounding));
    // In groups of two columns many rows are open when a later one is searched.
    if (!made.grid.lanes) {
      EXPECT_NEAR(chosen.loss, loss, 0.02 * loss);
    }
    EXPECT_LT(loss, 0.8 * made.loss(columns_alone));
  }
}

/// Bits of a number that independent integers need more at the same loss.
double gain(const Made& made, CodecProfile profile, int step) {
  const auto bits_of = [&](const IntegerGrid& grid, std::span<const std::int32_t> integers) {
    IntegerEncoder encoder(profile);
    encoder.add(grid, integers);
    return 8 * static_cast<double>(encoder.finish().size()) / static_cast<double>(grid.size());
  };
  const IntegerGrid independent{made.grid.rows, made.grid.cols, 0};
  SecondOrder model{std::make_shared<const UpperFactor>(made.moment, made.grid.cols, kDamp),
                    nullptr};
  double loss = 0;
  const CodedValues nearest =
      round_with_feedback(independent, made.values, model, {.step = step}, &loss);
  const DependentIntegers chosen = made.round({.step = step});
  return bits_of(independent, nearest.integers) - bits_of(made.grid, chosen.integers) +
         std::log2(loss / chosen.loss) / 2;
}

TEST(TrellisFeedback, SavesBitsAtTheSameLoss) {
  EXPECT_GT(gain(Made(150, 100, false), CodecProfile::kSmall, -20), 0.12);
  EXPECT_GT(gain(Made(300, 192, true), CodecProfile::kLanes, -20), 0.12);
}

TEST(TrellisFeedback, RefusesWhatDoesNotFit) {
  const Made made(6, 5, false);
  const auto round = [&](std::span<const float> values, const Rounding& rounding) {
    round_dependent(made.grid, values, made.model, made.order, rounding);
  };
  EXPECT_THROW(round(std::span(made.values).first(25), {}), Error);
  const std::vector<std::int32_t> rows(5);
  EXPECT_THROW(round(made.values, {.row_steps = rows}), Error);
  std::vector<float> wrong = made.values;
  wrong[7] = NAN;
  EXPECT_THROW(round(wrong, {}), Error);
  EXPECT_THROW(round(made.values, {.step = -16 * 40}), Error);
  Made others = made;
  others.model.rows = made.model.columns;
  EXPECT_THROW(others.round({}), Error);
}

}  // namespace
}  // namespace gbcompress
