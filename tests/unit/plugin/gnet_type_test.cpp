#include "gbcompress/registry.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <random>

#include "gbcompress/error.h"
#include "support/assemble.h"

namespace gbcompress {
namespace {

/// A random specification: any rank, either orientation, splits, tiles that do and do not divide.
GNetSpec random_spec(std::mt19937& random) {
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  GNetSpec spec;
  const int rank = static_cast<int>(draw(1, 5));
  spec.view = rank == 1         ? MatrixView{.row_dim = 0, .col_dim = -1}
              : draw(0, 1) == 0 ? MatrixView{.row_dim = 0, .col_dim = 1}
                                : MatrixView{.row_dim = 1, .col_dim = 0};
  spec.view.row_splits = draw(1, 3);
  if (rank > 1) spec.view.col_splits = draw(1, 3);
  const std::int64_t rows = draw(1, 9), cols = rank == 1 ? 1 : draw(1, 9);
  spec.shape.assign(static_cast<std::size_t>(rank), 0);
  for (std::int64_t& side : spec.shape) side = draw(1, 3);
  spec.shape[static_cast<std::size_t>(spec.view.row_dim)] = rows * spec.view.row_splits;
  if (rank > 1)
    spec.shape[static_cast<std::size_t>(spec.view.col_dim)] = cols * spec.view.col_splits;
  spec.tile_rows = draw(1, static_cast<int>(rows));
  spec.tile_cols = draw(1, static_cast<int>(cols));
  return spec;
}

TEST(PlaceTiles, AgreesWithAssembleOnRandomSpecs) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const GNetSpec spec = random_spec(random);
    const TileGrid grid = spec.grid();
    const at::Tensor tiles =
        torch::rand({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()});
    at::Tensor wanted = torch::full(spec.shape, -1.0f);
    assemble(grid, tiles.data_ptr<float>(), wanted.data_ptr<float>());
    const at::Tensor placed = place_tiles(spec, tiles);
    ASSERT_TRUE(placed.is_contiguous());
    ASSERT_TRUE(torch::equal(placed, wanted)) << "round " << round;
  }
}

TEST(PlaceTiles, SendsEachGradientToItsPosition) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const GNetSpec spec = random_spec(random);
    const TileGrid grid = spec.grid();
    at::Tensor tiles =
        torch::rand({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()});
    tiles.set_requires_grad(true);
    const at::Tensor upstream = torch::rand(spec.shape) + 1;
    place_tiles(spec, tiles).backward(upstream);
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

/// A type whose specification and build are given by the test.
class TestType final : public GNetType {
 public:
  TestType(SpecFunction spec, BuildFunction build, bool custom)
      : spec_(std::move(spec)), build_(std::move(build)), custom_(custom) {}
  std::string_view id() const noexcept override { return "test"; }
  std::uint32_t revision() const noexcept override { return 3; }
  std::vector<std::string> modules() const override { return {"Test"}; }
  int supports(std::string_view ability) const noexcept override {
    return ability == "custom-build" && custom_;
  }

 private:
  std::optional<GNetSpec> spec_impl(const ParameterInfo& parameter,
                                    const GNetOptions& options) const override {
    return spec_(parameter, options);
  }
  at::Tensor build_impl(const GNetSpec& spec, const at::Tensor& tiles) const override {
    return build_(spec, tiles);
  }
  SpecFunction spec_;
  BuildFunction build_;
  bool custom_;
};

GNetSpec spec_of(std::vector<std::int64_t> shape) {
  GNetSpec spec;
  spec.shape = std::move(shape);
  spec.tile_rows = spec.tile_cols = 2;
  return spec;
}

ParameterInfo parameter_of(std::vector<std::int64_t> shape) {
  ParameterInfo parameter;
  parameter.name = "fc.weight";
  parameter.shape = std::move(shape);
  return parameter;
}

TEST(GNetType, SpecIsNamedAndChecked) {
  const ParameterInfo parameter = parameter_of({4, 4});
  const TestType good([](auto&, auto&) { return spec_of({4, 4}); }, &place_tiles, false);
  const auto spec = good.spec(parameter, {});
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->type_id, "test");
  EXPECT_EQ(spec->type_revision, 3u);

  const TestType none([](auto&, auto&) { return std::nullopt; }, &place_tiles, false);
  EXPECT_FALSE(none.spec(parameter, {}).has_value());

  std::string message;
  const TestType invalid(
      [](auto&, auto&) {
        GNetSpec bad = spec_of({4, 4});
        bad.hidden.clear();
        return bad;
      },
      &place_tiles, false);
  EXPECT_EQ(code_of([&] { invalid.spec(parameter, {}); }, &message), Errc::kPluginFailed);
  EXPECT_NE(message.find("fc.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("hidden"), std::string::npos) << message;
}

TEST(GNetType, OnlyACustomBuildMayFormAnotherShape) {
  const ParameterInfo parameter = parameter_of({4, 8});
  const SpecFunction half = [](auto&, auto&) { return spec_of({4, 4}); };
  EXPECT_EQ(code_of([&] { TestType(half, &place_tiles, false).spec(parameter, {}); }),
            Errc::kPluginFailed);
  EXPECT_TRUE(TestType(half, &place_tiles, true).spec(parameter, {}).has_value());
}

TEST(GNetType, BuildChecksWhatGoesInAndWhatComesOut) {
  const SpecFunction any = [](auto&, auto&) { return spec_of({4, 4}); };
  const TestType places(any, &place_tiles, false);
  const GNetSpec spec = spec_of({4, 4});
  const at::Tensor tiles = torch::rand({4, 2, 2, 1});
  EXPECT_EQ(places.build(spec, tiles, {4, 4}, "w").sizes().vec(),
            (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(code_of([&] { places.build(spec, tiles, {4, 5}, "w"); }), Errc::kPluginFailed);
  EXPECT_EQ(code_of([&] {
              places.build(spec, tiles.squeeze(), {4, 4}, "w");
            }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code_of([&] { places.build(spec, at::Tensor(), {4, 4}, "w"); }), Errc::kShapeMismatch);
  const TestType nothing(
      any, [](auto&, auto&) { return at::Tensor(); }, true);
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  nothing.build(spec, tiles, {4, 4}, "w");
                },
                &message),
            Errc::kPluginFailed);
  EXPECT_NE(message.find("layer type test, tensor w: build returned an undefined tensor"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace gbcompress
