#include "gnet_type_contract.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "gbcompress/artifact.h"
#include "gbcompress/error.h"

namespace gbcompress::contract {
namespace {

/// Numbers in [-1, 1] that look random and are the same on every run.
at::Tensor numbers(at::IntArrayRef shape, double seed) {
  std::int64_t n = 1;
  for (std::int64_t side : shape) n *= side;
  return ((at::arange(n, at::kDouble) + 1) * (1.7320508 + seed))
      .sin_()
      .to(at::kFloat)
      .reshape(shape);
}

at::Tensor tiles_for(const GNetSpec& spec, double seed = 0) {
  const TileGrid grid = spec.grid();
  return numbers({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()}, seed);
}

class NamesOfGNetType : public testing::TestWithParam<std::string> {};
class GNetTypeContract : public testing::TestWithParam<Case> {
 protected:
  at::Tensor build(const at::Tensor& tiles) const {
    return c.type().build(spec, tiles, c.parameter.shape, c.parameter.name);
  }
  /// A number that every element of the result takes part in, in double.
  double probe(const at::Tensor& tiles) const {
    return (build(tiles).to(at::kDouble) * weights.to(at::kDouble)).sum().item<double>();
  }
  at::Tensor gradient(const at::Tensor& at_tiles) const {
    at::Tensor tiles = at_tiles.detach().clone();
    tiles.set_requires_grad(true);
    (build(tiles) * weights).sum().backward();
    return tiles.grad().defined() ? tiles.grad() : at::zeros(tiles.sizes(), at::kFloat);
  }

  const Case& c = GetParam();
  const GNetSpec spec = c.spec();
  const at::Tensor weights = numbers(c.parameter.shape, 0.9) + 2;
};

TEST(Registry, EveryTypeTakesSomeParameter) {
  ASSERT_FALSE(type_ids().empty() && host().registry().strategies().empty() &&
               host().registry().models().empty())
      << "no plugin was loaded, or it registered nothing";
  std::set<std::string> taken;
  for (const Case& c : cases()) taken.insert(c.type_id);
  for (const std::string& id : type_ids())
    EXPECT_TRUE(taken.contains(id))
        << id << " takes none of the offered parameters; offer one that it takes with "
        << "PARAMETERS Module.name:64x48 in gbcompress_add_contract_test()";
}

TEST_P(NamesOfGNetType, AreWellFormed) {
  const GNetType& type = *host().registry().find_by_id(GetParam());
  EXPECT_EQ(type.id(), GetParam());
  EXPECT_GE(type.revision(), 1u);
  const std::vector<std::string> modules = type.modules();
  EXPECT_FALSE(modules.empty());
  for (const std::string& module : modules) {
    EXPECT_EQ(host().registry().find_by_module(module), &type) << module;
    EXPECT_EQ(module.find("::"), std::string::npos) << module << ": names are without namespace";
    EXPECT_FALSE(module.ends_with("Impl")) << module << ": names are without Impl";
  }
  EXPECT_EQ(type.supports("an-ability-nobody-has"), 0);
}

TEST_P(GNetTypeContract, SpecIsValidAndCarriesTheTypesName) {
  EXPECT_NO_THROW(validate(spec));
  EXPECT_EQ(spec.type_id, c.type_id);
  EXPECT_EQ(spec.type_revision, c.type().revision());
  EXPECT_GE(spec_parameters(spec), 1);
}

TEST_P(GNetTypeContract, SpecIsPure) {
  for (const Case& other : {cases().front(), cases().back()}) other.spec();
  EXPECT_EQ(c.spec(), spec);
  ParameterInfo elsewhere = c.parameter;
  elsewhere.name = "another.model." + elsewhere.name;
  elsewhere.module_path = "another.model." + elsewhere.module_path;
  const auto again = c.type().spec(elsewhere, c.options);
  ASSERT_TRUE(again.has_value()) << "the specification depends on where the module lies";
  EXPECT_EQ(*again, spec) << "the specification depends on where the module lies";
}

TEST_P(GNetTypeContract, SpecSurvivesTheFile) {
  ArtifactWriter writer("", "");
  const std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)), 0.25f);
  writer.add_generated("w", DType::kF32, c.parameter.shape, spec, Coding::kF32, theta);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "contract");
  ASSERT_EQ(reader.tensors().size(), 1u);
  EXPECT_EQ(reader.tensors()[0].spec, spec);
  EXPECT_EQ(reader.tensors()[0].shape, c.parameter.shape);
}

TEST_P(GNetTypeContract, BuildGivesTheParameter) {
  const at::Tensor tiles = tiles_for(spec);
  const at::Tensor before = tiles.clone();
  const at::Tensor built = build(tiles);
  EXPECT_EQ(built.sizes().vec(), c.parameter.shape);
  EXPECT_EQ(built.scalar_type(), at::kFloat);
  EXPECT_TRUE(built.isfinite().all().item<bool>());
  EXPECT_TRUE(at::equal(tiles, before)) << "build() wrote into its tiles";
  EXPECT_TRUE(at::equal(build(tiles), built)) << "build() is not a function of its tiles";
}

TEST_P(GNetTypeContract, BuildRefusesOtherTiles) {
  const at::Tensor tiles = tiles_for(spec);
  EXPECT_THROW(build(tiles.unsqueeze(0)), Error);
  EXPECT_THROW(build(at::zeros({tiles.size(0) + 1, tiles.size(1), tiles.size(2), tiles.size(3)})),
               Error);
}

TEST_P(GNetTypeContract, GradientMatchesFiniteDifferences) {
  constexpr double kStep = 1e-2;
  const at::Tensor tiles = tiles_for(spec);
  const at::Tensor grad = gradient(tiles);
  const std::int64_t n = tiles.numel();
  const double size = grad.abs().max().item<double>() + 1e-3;
  const std::int64_t stride = std::max<std::int64_t>(1, n / 17);
  for (std::int64_t i = 0; i < n; i += stride) {
    const at::Tensor step = at::zeros({n}, at::kFloat);
    step.data_ptr<float>()[i] = kStep;
    const at::Tensor up = tiles + step.reshape(tiles.sizes());
    const at::Tensor down = tiles - step.reshape(tiles.sizes());
    const double measured = (probe(up) - probe(down)) / (2 * kStep);
    EXPECT_NEAR(grad.flatten()[i].item<double>(), measured, 2e-3 * size) << "tile element " << i;
  }
  const at::Tensor direction = tiles_for(spec, 0.31);
  const double measured =
      (probe(tiles + direction * kStep) - probe(tiles - direction * kStep)) / (2 * kStep);
  const double predicted = (grad.to(at::kDouble) * direction).sum().item<double>();
  EXPECT_NEAR(predicted, measured, 2e-3 * size * std::sqrt(static_cast<double>(n)));
}

TEST_P(GNetTypeContract, EveryPositionThatExistsMattersAndNoOther) {
  const at::Tensor used = gradient(tiles_for(spec)).ne(0);
  const TileGrid grid = spec.grid();
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent extent = grid.extent(t);
    const at::Tensor inside = used[t].narrow(0, 0, extent.rows).narrow(1, 0, extent.cols);
    EXPECT_EQ(used[t].sum().item<std::int64_t>(), inside.sum().item<std::int64_t>())
        << "a cropped position of tile " << t << " reaches the result";
    if (!c.type().supports("unused-positions")) {
      EXPECT_TRUE(inside.all().item<bool>())
          << "a position of tile " << t << " does not reach the result; a type that means it "
          << "supports(\"unused-positions\")";
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.name; }
std::string id_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return name;
}

// A plugin may have strategies only.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NamesOfGNetType);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GNetTypeContract);
INSTANTIATE_TEST_SUITE_P(Loaded, NamesOfGNetType, testing::ValuesIn(type_ids()), id_of);
INSTANTIATE_TEST_SUITE_P(Loaded, GNetTypeContract, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace gbcompress::contract
