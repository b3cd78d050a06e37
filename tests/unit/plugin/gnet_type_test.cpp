#include "gbcompress/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <random>

#include "gbcompress/error.h"
#include "support/assemble.h"

namespace gbcompress {
namespace {

/// A random plan: any rank, either orientation, splits, tiles that do and do not divide.
GNetPlan random_plan(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  GNetPlan plan;
  const int rank = static_cast<int>(draw(1, 5));
  plan.view = rank == 1         ? MatrixView{.row_dim = 0, .col_dim = -1}
              : draw(0, 1) == 0 ? MatrixView{.row_dim = 0, .col_dim = 1}
                                : MatrixView{.row_dim = 1, .col_dim = 0};
  plan.view.row_splits = draw(1, 3);
  if (rank > 1) plan.view.col_splits = draw(1, 3);
  const std::int64_t rows = draw(1, 9), cols = rank == 1 ? 1 : draw(1, 9);
  plan.shape.assign(static_cast<std::size_t>(rank), 0);
  for (std::int64_t& side : plan.shape) side = draw(1, 3);
  plan.shape[static_cast<std::size_t>(plan.view.row_dim)] = rows * plan.view.row_splits;
  if (rank > 1)
    plan.shape[static_cast<std::size_t>(plan.view.col_dim)] = cols * plan.view.col_splits;
  plan.tile_rows = draw(1, static_cast<int>(rows));
  plan.tile_cols = draw(1, static_cast<int>(cols));
  return plan;
}

TEST(PlaceTiles, AgreesWithAssembleOnRandomPlans) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const GNetPlan plan = random_plan(random);
    const TileGrid grid = plan.grid();
    const at::Tensor tiles =
        torch::rand({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()});
    at::Tensor wanted = torch::full(plan.shape, -1.0f);
    assemble(grid, tiles.data_ptr<float>(), wanted.data_ptr<float>());
    const at::Tensor placed = place_tiles(plan, tiles);
    ASSERT_TRUE(placed.is_contiguous());
    ASSERT_TRUE(torch::equal(placed, wanted)) << "round " << round;
  }
}

TEST(PlaceTiles, SendsEachGradientToItsPosition) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const GNetPlan plan = random_plan(random);
    const TileGrid grid = plan.grid();
    at::Tensor tiles =
        torch::rand({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()});
    tiles.set_requires_grad(true);
    const at::Tensor upstream = torch::rand(plan.shape) + 1;
    place_tiles(plan, tiles).backward(upstream);
    at::Tensor wanted = torch::full(tiles.sizes(), -1.0f);
    disassemble(grid, upstream.data_ptr<float>(), wanted.data_ptr<float>());
    ASSERT_TRUE(torch::equal(tiles.grad(), wanted)) << "round " << round;
  }
}

Errc code_of(const std::function<void()>& action, std::string* message = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.code();
  }
  return Errc::kFailure;
}

/// A type whose plan and build are given by the test.
class TestType final : public GNetType {
 public:
  TestType(PlanFunction plan, BuildFunction build, bool custom)
      : plan_(std::move(plan)), build_(std::move(build)), custom_(custom) {}
  std::string_view id() const noexcept override { return "test"; }
  std::uint32_t revision() const noexcept override { return 3; }
  std::vector<std::string> modules() const override { return {"Test"}; }
  int supports(std::string_view ability) const noexcept override {
    return ability == "custom-build" && custom_;
  }

 private:
  std::optional<GNetPlan> plan_impl(const ParameterInfo& parameter,
                                    const GNetOptions& options) const override {
    return plan_(parameter, options);
  }
  at::Tensor build_impl(const GNetPlan& plan, const at::Tensor& tiles) const override {
    return build_(plan, tiles);
  }
  PlanFunction plan_;
  BuildFunction build_;
  bool custom_;
};

GNetPlan plan_of(std::vector<std::int64_t> shape) {
  GNetPlan plan;
  plan.shape = std::move(shape);
  plan.tile_rows = plan.tile_cols = 2;
  return plan;
}

ParameterInfo parameter_of(std::vector<std::int64_t> shape) {
  ParameterInfo parameter;
  parameter.name = "fc.weight";
  parameter.shape = std::move(shape);
  return parameter;
}

TEST(GNetType, PlanIsNamedAndChecked) {
  const ParameterInfo parameter = parameter_of({4, 4});
  const TestType good([](auto&, auto&) { return plan_of({4, 4}); }, &place_tiles, false);
  const auto plan = good.plan(parameter, {});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->type_id, "test");
  EXPECT_EQ(plan->type_revision, 3u);

  const TestType none([](auto&, auto&) { return std::nullopt; }, &place_tiles, false);
  EXPECT_FALSE(none.plan(parameter, {}).has_value());

  std::string message;
  const TestType invalid(
      [](auto&, auto&) {
        GNetPlan bad = plan_of({4, 4});
        bad.hidden.clear();
        return bad;
      },
      &place_tiles, false);
  EXPECT_EQ(code_of([&] { invalid.plan(parameter, {}); }, &message), Errc::kPluginFailed);
  EXPECT_NE(message.find("fc.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("hidden"), std::string::npos) << message;
}

TEST(GNetType, OnlyACustomBuildMayPlanAnotherShape) {
  const ParameterInfo parameter = parameter_of({4, 8});
  const PlanFunction half = [](auto&, auto&) { return plan_of({4, 4}); };
  EXPECT_EQ(code_of([&] { TestType(half, &place_tiles, false).plan(parameter, {}); }),
            Errc::kPluginFailed);
  EXPECT_TRUE(TestType(half, &place_tiles, true).plan(parameter, {}).has_value());
}

TEST(GNetType, BuildChecksWhatGoesInAndWhatComesOut) {
  const PlanFunction any = [](auto&, auto&) { return plan_of({4, 4}); };
  const TestType places(any, &place_tiles, false);
  const GNetPlan plan = plan_of({4, 4});
  const at::Tensor tiles = torch::rand({4, 2, 2, 1});
  EXPECT_EQ(places.build(plan, tiles, {4, 4}, "w").sizes().vec(),
            (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(code_of([&] { places.build(plan, tiles, {4, 5}, "w"); }), Errc::kPluginFailed);
  EXPECT_EQ(code_of([&] {
              places.build(plan, tiles.squeeze(), {4, 4}, "w");
            }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { places.build(plan, at::Tensor(), {4, 4}, "w"); }), Errc::kShapeMismatch);
  const TestType nothing(
      any, [](auto&, auto&) { return at::Tensor(); }, true);
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  nothing.build(plan, tiles, {4, 4}, "w");
                },
                &message),
            Errc::kPluginFailed);
  EXPECT_NE(message.find("layer type test, tensor w: build returned an undefined tensor"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace gbcompress
