/// What the built-in plugins make of the parameters they claim.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "gbcompress/registry.h"

namespace gbcompress {
namespace {

const Registry& registry() {
  static PluginHost host;
  if (host.loaded().empty())
    for (const char* name : {"attention", "conv", "embedding", "linear", "recurrent"})
      host.load(std::string(GBC_PLUGIN_FOLDER) + "/" + name + ".so");
  return host.registry();
}

std::optional<GNetSpec> spec(const std::string& module, const std::string& local_name,
                             std::vector<std::int64_t> shape, const std::string& path = "m") {
  ParameterInfo info{.name = path + "." + local_name,
                     .local_name = local_name,
                     .module_path = path,
                     .module_type = module,
                     .shape = std::move(shape)};
  info.std = 0.1;
  const GNetType* type = registry().find_by_module(module);
  EXPECT_NE(type, nullptr) << module;
  return type ? type->spec(info, {}) : std::nullopt;
}

MatrixView view(const std::optional<GNetSpec>& spec) {
  EXPECT_TRUE(spec.has_value());
  return spec ? spec->view : MatrixView{.row_dim = -9};
}

constexpr MatrixView kPlain{.row_dim = 0, .col_dim = 1};
constexpr MatrixView kTransposed{.row_dim = 1, .col_dim = 0};

TEST(BuiltinSpecs, Linear) {
  const auto p = spec("Linear", "weight", {300, 784});
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->view, kPlain);
  EXPECT_EQ(p->type_id, "linear");
  EXPECT_EQ(p->shape, (std::vector<std::int64_t>{300, 784}));
  EXPECT_FLOAT_EQ(p->output_scale, 0.2f);
  EXPECT_FALSE(spec("Linear", "bias", {300}).has_value());
}

TEST(BuiltinSpecs, ConvolutionsOfEveryRank) {
  EXPECT_EQ(view(spec("Conv1d", "weight", {8, 4, 3})), kPlain);
  EXPECT_EQ(view(spec("Conv2d", "weight", {8, 4, 3, 3})), kPlain);
  EXPECT_EQ(view(spec("Conv3d", "weight", {8, 4, 3, 3, 3})), kPlain);
  EXPECT_EQ(view(spec("ConvTranspose1d", "weight", {4, 8, 3})), kTransposed);
  EXPECT_EQ(view(spec("ConvTranspose2d", "weight", {4, 8, 3, 3})), kTransposed);
  EXPECT_EQ(view(spec("ConvTranspose3d", "weight", {4, 8, 3, 3, 3})), kTransposed);
  EXPECT_EQ(view(spec("Conv2d", "weight", {32, 1, 3, 3})), kPlain) << "depthwise";
  EXPECT_EQ(spec("Conv2d", "weight", {8, 4, 3, 5})->kernel_codes.size(), 2u);
  EXPECT_FALSE(spec("Conv2d", "bias", {8}).has_value());
}

TEST(BuiltinSpecs, AttentionKeepsQueryKeyAndValueApart) {
  const auto fused = spec("MultiheadAttention", "in_proj_weight", {96, 32});
  EXPECT_EQ(view(fused), (MatrixView{.row_dim = 0, .col_dim = 1, .row_splits = 3}));
  EXPECT_EQ(fused->grid().rows(), 32);
  EXPECT_EQ(fused->grid().tiles() % 3, 0);
  for (const char* name : {"q_proj_weight", "k_proj_weight", "v_proj_weight"})
    EXPECT_EQ(view(spec("MultiheadAttention", name, {32, 32})), kPlain) << name;
  EXPECT_EQ(view(spec("NonDynamicallyQuantizableLinear", "weight", {32, 32})), kPlain);
  EXPECT_FALSE(spec("MultiheadAttention", "in_proj_bias", {96}).has_value());
  EXPECT_FALSE(spec("MultiheadAttention", "bias_k", {1, 1, 32}).has_value());
}

TEST(BuiltinSpecs, Gpt2LayersAreTransposed) {
  const MatrixView fused{.row_dim = 1, .col_dim = 0, .row_splits = 3};
  EXPECT_EQ(view(spec("Conv1D", "weight", {32, 96}, "h.0.attn.c_attn")), fused);
  EXPECT_EQ(view(spec("Conv1D", "weight", {32, 96}, "c_attn")), fused);
  EXPECT_EQ(view(spec("Conv1D", "weight", {32, 64}, "h.0.attn.c_attn")), kTransposed);
  EXPECT_EQ(view(spec("Conv1D", "weight", {32, 96}, "h.0.mlp.c_fc")), kTransposed);
  EXPECT_EQ(view(spec("Conv1D", "weight", {32, 96}, "h.0.not_c_attn")), kTransposed);
  EXPECT_FALSE(spec("Conv1D", "bias", {96}).has_value());
}

TEST(BuiltinSpecs, RecurrentKeepsGatesApart) {
  const auto gates = [](std::int64_t n) {
    return MatrixView{.row_dim = 0, .col_dim = 1, .row_splits = n};
  };
  for (const auto& [module, count] : {std::pair{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}}) {
    for (const char* name :
         {"weight_ih_l0", "weight_hh_l0", "weight_ih_l12", "weight_hh_l3_reverse"})
      EXPECT_EQ(view(spec(module, name, {count * 20, 14})), gates(count)) << module << "." << name;
    const std::string cell = std::string(module) + "Cell";
    for (const char* name : {"weight_ih", "weight_hh"})
      EXPECT_EQ(view(spec(cell, name, {count * 20, 14})), gates(count)) << cell << "." << name;
    EXPECT_FALSE(spec(cell, "weight_ih_l0", {count * 20, 14}).has_value()) << "no cell's name";
    EXPECT_FALSE(spec(cell, "weight_hr", {14, 20}).has_value());
    for (const char* name : {"weight_ih", "weight_ih_l", "weight_ih_lx", "weight_ih_l0_reversed",
                             "weight_xx_l0", "bias_ih_l0"})
      EXPECT_FALSE(spec(module, name, {count * 20, 14}).has_value()) << name;
    EXPECT_FALSE(spec(module, "bias_ih_l0", {count * 20}).has_value());
  }
  const auto lstm = spec("LSTM", "weight_hh_l0", {80, 20});
  EXPECT_EQ(lstm->type_id, "recurrent");
  EXPECT_EQ(lstm->grid().rows(), 20);
  EXPECT_EQ(lstm->grid().tiles() % 4, 0);
  EXPECT_EQ(view(spec("LSTM", "weight_hr_l0_reverse", {10, 20})), gates(1));
  EXPECT_FALSE(spec("GRU", "weight_hr_l0", {10, 20}).has_value()) << "GRUs have no projections";
  EXPECT_FALSE(spec("LSTM", "weight_ih_l0", {78, 20}).has_value()) << "not four gates";
}

TEST(BuiltinSpecs, EmbeddingsAreTables) {
  for (const char* module : {"Embedding", "EmbeddingBag"}) {
    const auto p = spec(module, "weight", {500, 24});
    EXPECT_EQ(view(p), kPlain) << module;
    EXPECT_EQ(p->type_id, "embedding");
  }
  EXPECT_FALSE(spec("Embedding", "bias", {500}).has_value());
  EXPECT_EQ(registry().find_by_id("embedding")->supports("only-by-rule"), 1);
}

}  // namespace
}  // namespace gbcompress
