#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "gbcompress/error.h"
#include "gnet/tile_kernel.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

ParameterInfo parameter(std::vector<std::int64_t> shape, double std = 0.05) {
  ParameterInfo info;
  info.name = "layer.weight";
  info.shape = std::move(shape);
  info.std = std;
  return info;
}

double whole_ratio(const GNetPlan& plan) {
  return static_cast<double>(plan.grid().elements()) / static_cast<double>(plan_parameters(plan));
}

TEST(MakePlan, MatchesTorchGbsDefaultGNet) {
  const GNetPlan plan = make_plan(parameter({300, 200}), {}, {});
  EXPECT_EQ(plan.tile_rows, 100);
  EXPECT_EQ(plan.tile_cols, 100);
  EXPECT_EQ(gnet_inputs(plan), 14);
  EXPECT_EQ(gnet_parameters(plan), 513);
  EXPECT_EQ(plan_parameters(plan), 6 * 513);
  EXPECT_NEAR(whole_ratio(plan), 19.5, 0.01);
  EXPECT_EQ(plan.output_scale, 0.1f);
}

TEST(MakePlan, TakesTheRankFromTheRatio) {
  GNetOptions options{.ratio = 8, .generator = Generator::kLowRank, .rank = 0};
  const GNetPlan square = make_plan(parameter({256, 256}), {}, options);
  EXPECT_EQ(square.rank, 16);
  EXPECT_EQ(square.grid().tiles(), 1);
  EXPECT_DOUBLE_EQ(whole_ratio(square), 8);
  EXPECT_EQ(make_plan(parameter({16, 256}), {}, options).rank, 8);  // 16 / 256 is 1 / 2^4
  EXPECT_EQ(make_plan(parameter({4096, 256}), {}, options).rank, 16);
  EXPECT_EQ(make_plan(parameter({512, 4, 8, 8}), {}, options).rank, 16);  // 512 x 256
  options.ratio = 1e6;
  EXPECT_EQ(make_plan(parameter({256, 256}), {}, options).rank, 1);
  options.ratio = 0.001;
  EXPECT_EQ(make_plan(parameter({20, 256}), {}, options).rank, 20);
  options.ratio.reset();
  EXPECT_EQ(code_of([&] { make_plan(parameter({20, 256}), {}, options); }), Errc::kUsage);
}

TEST(MakePlan, NeverGoesBeyondTheMatrix) {
  const GNetPlan plan = make_plan(parameter({10, 64}), {}, {});
  EXPECT_EQ(plan.tile_rows, 10);
  EXPECT_EQ(plan.tile_cols, 64);
  EXPECT_EQ(plan.grid().tiles(), 1);
  const GNetPlan split = make_plan(parameter({90, 30}), {.row_splits = 3}, {});
  EXPECT_EQ(split.tile_rows, 30);
  EXPECT_EQ(split.grid().tiles(), 3);
}

TEST(MakePlan, CountsKernelPositionsInATile) {
  const GNetPlan plan = make_plan(parameter({64, 64, 3, 3}), {}, {});
  EXPECT_EQ(plan.tile_rows, 34);  // ceil(sqrt(10000 / 9)) = ceil(33.33)
  EXPECT_EQ(plan.kernel_codes, (std::vector<AxisCode>{Encoding::kOneHot, Encoding::kOneHot}));
  EXPECT_EQ(gnet_inputs(plan), 6 + 6 + 3 + 3);
  EXPECT_EQ(make_plan(parameter({64, 64, 5, 5}), {}, {}).tile_rows, 20);  // sqrt(400) exactly
  EXPECT_EQ(make_plan(parameter({8, 8, 200, 200}), {}, {}).tile_rows, 1);
}

TEST(MakePlan, TakesCodesAndWidthsAsAsked) {
  GNetOptions options;
  options.hidden = {30, 10};
  options.tile_weights = 784 * 300;
  options.row_code = Encoding::kGray;
  options.col_code = Encoding::kOneHot;
  const GNetPlan plan = make_plan(parameter({16, 8, 3}), {}, options);
  EXPECT_EQ(gnet_inputs(plan), 4 + 8 + 3);
  EXPECT_EQ(gnet_parameters(plan), (15 + 1) * 30 + 31 * 10 + 11);
}

TEST(MakePlan, ZeroDeviationKeepsTheScaleAtOne) {
  EXPECT_EQ(make_plan(parameter({4, 4}, 0), {}, {}).output_scale, 1.0f);
  EXPECT_EQ(make_plan(parameter({4, 4}, 1e-60), {}, {}).output_scale, 1.0f);
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300, -1.0})
    EXPECT_EQ(code_of([&] { make_plan(parameter({4, 4}, bad), {}, {}); }), Errc::kNonFinite);
}

TEST(MakePlan, ProductsCountTheirMatricesAndLookAtNothingElse) {
  GNetOptions options;
  options.generator = Generator::kLowRank;
  options.rank = 3;
  options.tile_weights = 400;
  options.hidden = {};
  options.row_code = Encoding::kGray;
  const GNetPlan low = make_plan(parameter({50, 60, 2}), {}, options);
  EXPECT_EQ(low.tile_rows, 15);  // ceil(sqrt(400 / 2))
  EXPECT_TRUE(low.hidden.empty());
  EXPECT_EQ(low.row_code, AxisCode());
  EXPECT_EQ(gnet_parameters(low), 15 * 3 + 15 * 2 * 3);
  options.generator = Generator::kXox;
  EXPECT_EQ(gnet_parameters(make_plan(parameter({50, 60, 2}), {}, options)), 45 + 9 + 90);
  options.ratio = 2.0;
  const GNetPlan sized = make_plan(parameter({50, 60}), {}, options);
  EXPECT_GE(3000.0 / static_cast<double>(plan_parameters(sized)), 2.0);
  options.rank = -1;
  EXPECT_EQ(code_of([&] { make_plan(parameter({5, 6}), {}, options); }), Errc::kUsage);
}

TEST(MakePlan, AnImageIsNeverCut) {
  GNetOptions options;
  options.tile_weights = 3000;
  options.col_code = AxisCode(Encoding::kPixel, 4, {28, 28});
  const GNetPlan plan = make_plan(parameter({300, 784}), {}, options);
  EXPECT_EQ(plan.tile_cols, 784);
  EXPECT_EQ(plan.tile_rows, 3);  // 3000 / 784
  EXPECT_EQ(gnet_inputs(plan), 2 + 8);
  options.ratio = 30;
  const GNetPlan sized = make_plan(parameter({300, 784}), {}, options);
  EXPECT_EQ(sized.tile_cols, 784);
  EXPECT_GE(300.0 * 784 / static_cast<double>(plan_parameters(sized)), 30);
  options.col_code = AxisCode(Encoding::kPixel, 4, {28, 27});
  EXPECT_EQ(code_of([&] { make_plan(parameter({300, 784}), {}, options); }), Errc::kShapeMismatch);
}

TEST(MakePlan, TrainedCodesAndSecondOutputsAreCounted) {
  GNetOptions options;
  options.tile_weights = 100;
  options.hidden = {4};
  options.row_code = AxisCode(Encoding::kLatent, 2);
  options.col_code = AxisCode(Encoding::kFourier, 3);
  options.generator = Generator::kStochastic;
  const GNetPlan plan = make_plan(parameter({10, 10}), {}, options);
  EXPECT_EQ(gnet_parameters(plan), (8 * 4 + 4) + (4 * 2 + 2) + 10 * 2);
  EXPECT_EQ(generator_text(plan), "8-4-2 stochastic");
}

TEST(MakePlan, RatioFindsTheSmallestSideThatReachesIt) {
  RandomStream random(3, "plan test");
  const Encoding codes[] = {Encoding::kBinary, Encoding::kGray, Encoding::kOneHot};
  for (std::uint64_t round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    const auto roll = [&](std::uint64_t n, std::uint64_t most) {
      return static_cast<std::int64_t>(1 + random.bits(8 * round + n) % most);
    };
    std::vector<std::int64_t> shape = {roll(0, 200), roll(1, 200)};
    if (round % 3 == 0) shape.push_back(roll(2, 4));
    GNetOptions options;
    options.hidden = {roll(3, 16)};
    options.row_code = codes[roll(4, 3) - 1];
    options.col_code = codes[roll(5, 3) - 1];
    options.ratio = 0.05 * static_cast<double>(roll(6, 600));
    const GNetPlan plan = make_plan(parameter(shape), {}, options);

    // Every side in turn, without any shortcut.
    GNetPlan expected = plan;
    double best = 0;
    for (std::int64_t side = 1; side <= std::max(shape[0], shape[1]) && best < *options.ratio;
         ++side) {
      GNetPlan trial = plan;
      trial.tile_rows = std::min(side, shape[0]);
      trial.tile_cols = std::min(side, shape[1]);
      if (whole_ratio(trial) > best) {
        best = whole_ratio(trial);
        expected = trial;
      }
    }
    EXPECT_EQ(plan, expected);
  }
}

TEST(MakePlan, RatioOnALargeMatrixIsQuickAndExact) {
  GNetOptions options;
  options.ratio = 20;
  const GNetPlan plan = make_plan(parameter({50257, 768}), {}, options);
  EXPECT_GE(whole_ratio(plan), 20);
  EXPECT_LT(whole_ratio(plan), 21);
  options.ratio = 1e9;  // out of reach: the best there is
  const GNetPlan best = make_plan(parameter({1000, 1000}), {}, options);
  EXPECT_EQ(best.tile_rows, 1000);
}

TEST(MakePlan, RefusesOptionsOutOfRange) {
  const auto with = [](auto change) {
    return code_of([&] {
      GNetOptions options;
      change(options);
      make_plan(parameter({40, 40}), {}, options);
    });
  };
  EXPECT_EQ(with([](GNetOptions& o) { o.tile_weights = 0; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.tile_weights = -5; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.ratio = 0; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.ratio = -5; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.ratio = std::nan(""); }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.ratio = HUGE_VAL; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.hidden = {}; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.hidden = {0}; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.hidden = {65'537}; }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.hidden.assign(9, 4); }), Errc::kUsage);
  EXPECT_EQ(with([](GNetOptions& o) { o.hidden.assign(8, 4); }), Errc::kFailure);  // accepted
}

TEST(ValidatePlan, RefusesEveryFieldOutOfBounds) {
  const GNetPlan good = make_plan(parameter({40, 40, 3}), {}, {});
  EXPECT_NO_THROW(validate(good));
  const auto with = [&](auto change) {
    return code_of([&] {
      GNetPlan plan = good;
      change(plan);
      validate(plan);
    });
  };
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden = {4, 0}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden = {-1}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden.assign(9, 4); }), Errc::kLimit);
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden = {65'537}; }), Errc::kLimit);
  EXPECT_EQ(with([](GNetPlan& p) { p.hidden = {65'536, 65'536}; }), Errc::kLimit);
  EXPECT_EQ(with([](GNetPlan& p) { p.tile_rows = 41; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.shape = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.kernel_codes = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.output_scale = NAN; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.row_code = static_cast<Encoding>(9); }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) { p.type_id = "Linear/../x"; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetPlan& p) {
              p.shape = {1 << 21, 2, 3};
              p.tile_rows = 1 << 21;
              p.tile_cols = 1;
              p.row_code = Encoding::kOneHot;
            }),
            Errc::kLimit);
  EXPECT_EQ(with([](GNetPlan& p) {
              p.shape = {1 << 30, 2, 3};
              p.tile_rows = 1 << 30;
              p.tile_cols = 1;
            }),
            Errc::kLimit);
}

TEST(BankShape, LaysLayersOneAfterAnother) {
  GNetOptions options;
  options.hidden = {5, 3};
  const GNetPlan plan = make_plan(parameter({7, 9, 2, 2}), {}, options);
  const BankShape shape = bank_shape(plan);
  EXPECT_EQ(shape.parameters(), gnet_parameters(plan));
  EXPECT_EQ(shape.codes.inputs(), gnet_inputs(plan));
  EXPECT_EQ(shape.positions(), plan.grid().positions());
  const auto layers = shape.layers();
  ASSERT_EQ(layers.size(), 3u);
  const std::int64_t inputs = gnet_inputs(plan);
  EXPECT_EQ(layers[0].weight, 0);
  EXPECT_EQ(layers[0].bias, 5 * inputs);
  EXPECT_EQ(layers[1].weight, 5 * inputs + 5);
  EXPECT_EQ(layers[1].bias, 5 * inputs + 5 + 15);
  EXPECT_EQ(layers[2].weight, 5 * inputs + 5 + 18);
  EXPECT_EQ(layers[2].bias, shape.parameters() - 1);
}

}  // namespace
}  // namespace gbcompress
