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

double whole_ratio(const GNetSpec& spec) {
  return static_cast<double>(spec.grid().elements()) / static_cast<double>(spec_parameters(spec));
}

TEST(MakeSpec, MatchesTorchGbsDefaultGNet) {
  const GNetSpec spec = make_spec(parameter({300, 200}), {}, {});
  EXPECT_EQ(spec.tile_rows, 100);
  EXPECT_EQ(spec.tile_cols, 100);
  EXPECT_EQ(gnet_inputs(spec), 14);
  EXPECT_EQ(gnet_parameters(spec), 513);
  EXPECT_EQ(spec_parameters(spec), 6 * 513);
  EXPECT_NEAR(whole_ratio(spec), 19.5, 0.01);
  EXPECT_EQ(spec.output_scale, 0.1f);
}

TEST(MakeSpec, TakesTheRankFromTheRatio) {
  GNetOptions options{.ratio = 8, .generator = Generator::kLowRank, .rank = 0};
  const GNetSpec square = make_spec(parameter({256, 256}), {}, options);
  EXPECT_EQ(square.rank, 16);
  EXPECT_EQ(square.grid().tiles(), 1);
  EXPECT_DOUBLE_EQ(whole_ratio(square), 8);
  EXPECT_EQ(make_spec(parameter({16, 256}), {}, options).rank, 8);  // 16 / 256 is 1 / 2^4
  EXPECT_EQ(make_spec(parameter({4096, 256}), {}, options).rank, 16);
  EXPECT_EQ(make_spec(parameter({512, 4, 8, 8}), {}, options).rank, 16);  // 512 x 256
  options.ratio = 1e6;
  EXPECT_EQ(make_spec(parameter({256, 256}), {}, options).rank, 1);
  options.ratio = 0.001;
  EXPECT_EQ(make_spec(parameter({20, 256}), {}, options).rank, 20);
  options.ratio.reset();
  EXPECT_EQ(code_of([&] { make_spec(parameter({20, 256}), {}, options); }), Errc::kUsage);
}

TEST(MakeSpec, NeverGoesBeyondTheMatrix) {
  const GNetSpec spec = make_spec(parameter({10, 64}), {}, {});
  EXPECT_EQ(spec.tile_rows, 10);
  EXPECT_EQ(spec.tile_cols, 64);
  EXPECT_EQ(spec.grid().tiles(), 1);
  const GNetSpec split = make_spec(parameter({90, 30}), {.row_splits = 3}, {});
  EXPECT_EQ(split.tile_rows, 30);
  EXPECT_EQ(split.grid().tiles(), 3);
}

TEST(MakeSpec, CountsKernelPositionsInATile) {
  const GNetSpec spec = make_spec(parameter({64, 64, 3, 3}), {}, {});
  EXPECT_EQ(spec.tile_rows, 34);  // ceil(sqrt(10000 / 9)) = ceil(33.33)
  EXPECT_EQ(spec.kernel_codes, (std::vector<AxisCode>{Encoding::kOneHot, Encoding::kOneHot}));
  EXPECT_EQ(gnet_inputs(spec), 6 + 6 + 3 + 3);
  EXPECT_EQ(make_spec(parameter({64, 64, 5, 5}), {}, {}).tile_rows, 20);  // sqrt(400) exactly
  EXPECT_EQ(make_spec(parameter({8, 8, 200, 200}), {}, {}).tile_rows, 1);
}

TEST(MakeSpec, TakesCodesAndWidthsAsAsked) {
  GNetOptions options;
  options.hidden = {30, 10};
  options.tile_weights = 784 * 300;
  options.row_code = Encoding::kGray;
  options.col_code = Encoding::kOneHot;
  const GNetSpec spec = make_spec(parameter({16, 8, 3}), {}, options);
  EXPECT_EQ(gnet_inputs(spec), 4 + 8 + 3);
  EXPECT_EQ(gnet_parameters(spec), (15 + 1) * 30 + 31 * 10 + 11);
}

TEST(MakeSpec, ZeroDeviationKeepsTheScaleAtOne) {
  EXPECT_EQ(make_spec(parameter({4, 4}, 0), {}, {}).output_scale, 1.0f);
  EXPECT_EQ(make_spec(parameter({4, 4}, 1e-60), {}, {}).output_scale, 1.0f);
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300, -1.0})
    EXPECT_EQ(code_of([&] { make_spec(parameter({4, 4}, bad), {}, {}); }), Errc::kNonFinite);
}

TEST(MakeSpec, ProductsCountTheirMatricesAndLookAtNothingElse) {
  GNetOptions options;
  options.generator = Generator::kLowRank;
  options.rank = 3;
  options.tile_weights = 400;
  options.hidden = {};
  options.row_code = Encoding::kGray;
  const GNetSpec low = make_spec(parameter({50, 60, 2}), {}, options);
  EXPECT_EQ(low.tile_rows, 15);  // ceil(sqrt(400 / 2))
  EXPECT_TRUE(low.hidden.empty());
  EXPECT_EQ(low.row_code, AxisCode());
  EXPECT_EQ(gnet_parameters(low), 15 * 3 + 15 * 2 * 3);
  options.generator = Generator::kXox;
  EXPECT_EQ(gnet_parameters(make_spec(parameter({50, 60, 2}), {}, options)), 45 + 9 + 90);
  options.ratio = 2.0;
  const GNetSpec sized = make_spec(parameter({50, 60}), {}, options);
  EXPECT_GE(3000.0 / static_cast<double>(spec_parameters(sized)), 2.0);
  options.rank = -1;
  EXPECT_EQ(code_of([&] { make_spec(parameter({5, 6}), {}, options); }), Errc::kUsage);
}

TEST(MakeSpec, AnImageIsNeverCut) {
  GNetOptions options;
  options.tile_weights = 3000;
  options.col_code = AxisCode(Encoding::kPixel, 4, {28, 28});
  const GNetSpec spec = make_spec(parameter({300, 784}), {}, options);
  EXPECT_EQ(spec.tile_cols, 784);
  EXPECT_EQ(spec.tile_rows, 3);  // 3000 / 784
  EXPECT_EQ(gnet_inputs(spec), 2 + 8);
  options.ratio = 30;
  const GNetSpec sized = make_spec(parameter({300, 784}), {}, options);
  EXPECT_EQ(sized.tile_cols, 784);
  EXPECT_GE(300.0 * 784 / static_cast<double>(spec_parameters(sized)), 30);
  options.col_code = AxisCode(Encoding::kPixel, 4, {28, 27});
  EXPECT_EQ(code_of([&] { make_spec(parameter({300, 784}), {}, options); }), Errc::kShapeMismatch);
}

TEST(MakeSpec, TrainedCodesAndSecondOutputsAreCounted) {
  GNetOptions options;
  options.tile_weights = 100;
  options.hidden = {4};
  options.row_code = AxisCode(Encoding::kLatent, 2);
  options.col_code = AxisCode(Encoding::kFourier, 3);
  options.generator = Generator::kStochastic;
  const GNetSpec spec = make_spec(parameter({10, 10}), {}, options);
  EXPECT_EQ(gnet_parameters(spec), (8 * 4 + 4) + (4 * 2 + 2) + 10 * 2);
  EXPECT_EQ(generator_text(spec), "8-4-2 stochastic");
}

TEST(MakeSpec, RatioFindsTheSmallestSideThatReachesIt) {
  RandomStream random(3, "spec test");
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
    const GNetSpec spec = make_spec(parameter(shape), {}, options);

    // Every side in turn, without any shortcut.
    GNetSpec expected = spec;
    double best = 0;
    for (std::int64_t side = 1; side <= std::max(shape[0], shape[1]) && best < *options.ratio;
         ++side) {
      GNetSpec trial = spec;
      trial.tile_rows = std::min(side, shape[0]);
      trial.tile_cols = std::min(side, shape[1]);
      if (whole_ratio(trial) > best) {
        best = whole_ratio(trial);
        expected = trial;
      }
    }
    EXPECT_EQ(spec, expected);
  }
}

TEST(MakeSpec, RatioOnALargeMatrixIsQuickAndExact) {
  GNetOptions options;
  options.ratio = 20;
  const GNetSpec spec = make_spec(parameter({50257, 768}), {}, options);
  EXPECT_GE(whole_ratio(spec), 20);
  EXPECT_LT(whole_ratio(spec), 21);
  options.ratio = 1e9;  // out of reach: the best there is
  const GNetSpec best = make_spec(parameter({1000, 1000}), {}, options);
  EXPECT_EQ(best.tile_rows, 1000);
}

TEST(MakeSpec, RefusesOptionsOutOfRange) {
  const auto with = [](auto change) {
    return code_of([&] {
      GNetOptions options;
      change(options);
      make_spec(parameter({40, 40}), {}, options);
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

TEST(ValidateSpec, RefusesEveryFieldOutOfBounds) {
  const GNetSpec good = make_spec(parameter({40, 40, 3}), {}, {});
  EXPECT_NO_THROW(validate(good));
  const auto with = [&](auto change) {
    return code_of([&] {
      GNetSpec spec = good;
      change(spec);
      validate(spec);
    });
  };
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden = {4, 0}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden = {-1}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden.assign(9, 4); }), Errc::kLimit);
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden = {65'537}; }), Errc::kLimit);
  EXPECT_EQ(with([](GNetSpec& p) { p.hidden = {65'536, 65'536}; }), Errc::kLimit);
  EXPECT_EQ(with([](GNetSpec& p) { p.tile_rows = 41; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.shape = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.kernel_codes = {}; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.output_scale = NAN; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.row_code = static_cast<Encoding>(9); }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) { p.type_id = "Linear/../x"; }), Errc::kShapeMismatch);
  EXPECT_EQ(with([](GNetSpec& p) {
              p.shape = {1 << 21, 2, 3};
              p.tile_rows = 1 << 21;
              p.tile_cols = 1;
              p.row_code = Encoding::kOneHot;
            }),
            Errc::kLimit);
  EXPECT_EQ(with([](GNetSpec& p) {
              p.shape = {1 << 30, 2, 3};
              p.tile_rows = 1 << 30;
              p.tile_cols = 1;
            }),
            Errc::kLimit);
}

TEST(BankShape, LaysLayersOneAfterAnother) {
  GNetOptions options;
  options.hidden = {5, 3};
  const GNetSpec spec = make_spec(parameter({7, 9, 2, 2}), {}, options);
  const BankShape shape = bank_shape(spec);
  EXPECT_EQ(shape.parameters(), gnet_parameters(spec));
  EXPECT_EQ(shape.codes.inputs(), gnet_inputs(spec));
  EXPECT_EQ(shape.positions(), spec.grid().positions());
  const auto layers = shape.layers();
  ASSERT_EQ(layers.size(), 3u);
  const std::int64_t inputs = gnet_inputs(spec);
  EXPECT_EQ(layers[0].weight, 0);
  EXPECT_EQ(layers[0].bias, 5 * inputs);
  EXPECT_EQ(layers[1].weight, 5 * inputs + 5);
  EXPECT_EQ(layers[1].bias, 5 * inputs + 5 + 15);
  EXPECT_EQ(layers[2].weight, 5 * inputs + 5 + 18);
  EXPECT_EQ(layers[2].bias, shape.parameters() - 1);
}

}  // namespace
}  // namespace gbcompress
