#include "gbcompress/train.h"
#include "model/forward_pass.h"
#include "model/recurrent_names.h"
#include "model/state_dict_model.h"

#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

TEST(GuessModuleType, FromNamesAndRanks) {
  using Shape = std::vector<std::int64_t>;
  const std::vector<std::tuple<const char*, const char*, Shape, const char*>> cases = {
      {"fc", "weight", {3, 4}, "Linear"},
      {"", "weight", {3, 4}, "Linear"},
      {"fc", "bias", {3}, ""},
      {"norm", "weight", {3}, ""},
      {"a", "weight", {3, 4, 5}, "Conv1d"},
      {"a", "weight", {3, 4, 5, 5}, "Conv2d"},
      {"a", "weight", {3, 4, 5, 5, 5}, "Conv3d"},
      {"a", "weight", {3, 4, 5, 5, 5, 5}, ""},
      {"encoder.layers.0.self_attn", "in_proj_weight", {12, 4}, "MultiheadAttention"},
      {"encoder.layers.0.self_attn.out_proj", "weight", {4, 4}, "Linear"},
      {"h.0.attn.c_attn", "weight", {4, 12}, "Conv1D"},
      {"h.0.attn.c_attn", "weight", {12, 4}, "Linear"},
      {"h.0.attn.c_proj", "weight", {4, 4}, "Conv1D"},
      {"h.0.mlp.c_proj", "weight", {16, 4}, "Conv1D"},
      {"h.0.mlp.c_proj", "weight", {4, 16}, "Linear"},
      {"h.0.mlp.c_fc", "weight", {4, 16}, "Conv1D"},
      {"transformer.wte", "weight", {50, 4}, "Embedding"},
      {"tok", "weight", {50, 4}, "Embedding"},
      {"model.embed_tokens", "weight", {50, 4}, "Embedding"},
      {"pos_emb", "weight", {50, 4}, "Embedding"},
      {"embed_proj", "weight", {50, 4}, "Linear"},
      {"position_head", "weight", {50, 4}, "Linear"},
      {"", "cls_token", {1, 1, 8}, ""},
  };
  for (const auto& [path, local, shape, type] : cases)
    EXPECT_EQ(guess_module_type(path, local, shape), type) << path << "." << local;
}

TEST(GuessModuleType, RecurrentLayersFromTheSidesOfTheirMatrices) {
  using Shapes = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
  const auto type_of = [](const Shapes& shapes) {
    std::vector<NamedParameter> tensors(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i)
      name_parameter(tensors[i].info, shapes[i].first, shapes[i].second);
    guess_recurrent_types(tensors);
    for (const NamedParameter& tensor : tensors)
      EXPECT_EQ(tensor.info.module_type, tensors[0].info.module_type) << tensor.info.name;
    return tensors[0].info.module_type;
  };
  EXPECT_EQ(type_of({{"r.weight_ih_l0", {32, 5}}, {"r.weight_hh_l0", {32, 8}}}), "LSTM");
  EXPECT_EQ(type_of({{"r.weight_ih_l0", {24, 5}},
                     {"r.weight_hh_l0", {24, 8}},
                     {"r.weight_ih_l1_reverse", {24, 16}},
                     {"r.weight_hh_l1_reverse", {24, 8}}}),
            "GRU");
  EXPECT_EQ(type_of({{"weight_ih_l0", {8, 32}}, {"weight_hh_l0", {8, 8}}}), "RNN");
  EXPECT_EQ(type_of({{"c.weight_ih", {32, 5}}, {"c.weight_hh", {32, 8}}}), "LSTMCell");
  EXPECT_EQ(type_of({{"c.weight_ih", {24, 5}}, {"c.weight_hh", {24, 8}}}), "GRUCell");
  EXPECT_EQ(type_of({{"c.weight_ih", {8, 5}}, {"c.weight_hh", {8, 8}}}), "RNNCell");
  // Projected to 4: the recurrent input is not the hidden size.
  EXPECT_EQ(
      type_of(
          {{"r.weight_ih_l0", {32, 5}}, {"r.weight_hh_l0", {32, 4}}, {"r.weight_hr_l0", {4, 8}}}),
      "LSTM");
  EXPECT_EQ(
      type_of(
          {{"r.weight_ih_l0", {24, 5}}, {"r.weight_hh_l0", {24, 4}}, {"r.weight_hr_l0", {4, 8}}}),
      "");
  EXPECT_EQ(type_of({{"r.weight_ih_l0", {16, 5}}, {"r.weight_hh_l0", {16, 8}}}), "");
  EXPECT_EQ(type_of({{"r.weight_ih_l0", {32, 5}}}), "") << "weight_hh is missing";
  EXPECT_EQ(type_of({{"r.weight_hr_l0", {4, 8}}}), "");
  EXPECT_EQ(type_of({{"r.weight_hh_l0", {32}}}), "");
  EXPECT_EQ(type_of({{"r.weight_hh_l0", {0, 0}}}), "");
}

TEST(StateDictModel, KnowsValuesButNoForward) {
  TemporaryFolder folder;
  const auto file = folder / "m.safetensors";
  const float inf = std::numeric_limits<float>::infinity();
  write_tensors(file, {{"conv.weight", torch::randn({4, 3, 2, 2})},
                       {"bn.running_mean", torch::randn({4})},
                       {"bn.num_batches_tracked", torch::tensor(17)},
                       {"mask", torch::tensor({0.0f, -inf}).to(torch::kHalf)},
                       {"alone", torch::randn({5})}});
  const auto model = open_model(file, "", Registry());
  EXPECT_FALSE(model->has_forward());
  EXPECT_EQ(model->arch(), "");
  const NamedParameter& conv = find(*model, "conv.weight");
  EXPECT_EQ(conv.info.module_type, "Conv2d");
  EXPECT_EQ(conv.info.module_path, "conv");
  EXPECT_NEAR(conv.info.std, conv.tensor.std().item<float>(), 1e-6);
  EXPECT_TRUE(conv.trainable);
  EXPECT_EQ(find(*model, "alone").info.local_name, "alone");
  EXPECT_EQ(find(*model, "alone").info.module_path, "");
  EXPECT_FALSE(find(*model, "bn.running_mean").trainable);
  EXPECT_FALSE(find(*model, "bn.num_batches_tracked").trainable);
  EXPECT_EQ(find(*model, "bn.num_batches_tracked").tensor.item<int>(), 17);
  EXPECT_FALSE(find(*model, "mask").trainable);
  EXPECT_EQ(find(*model, "mask").tensor.scalar_type(), torch::kHalf) << "kept as it was";
  expect_error([&] { model->forward(torch::ones({1, 2})); }, Errc::kUsage, {"`arch`"});
}

/// A model may come from no file: no message says that it does.
TEST(StateDictModel, WithoutAForwardPassIsRefusedInTheSameWords) {
  NamedParameter weight;
  name_parameter(weight.info, "fc.weight", {10, 64});
  weight.tensor = torch::zeros({10, 64});
  StateDictModel model({weight});
  const Dataset data(torch::zeros({3, 64}), torch::zeros({3}, torch::kLong));
  const std::function<void()> calls[] = {
      [&] {
        model.forward(torch::ones({1, 64}));
      },
      [&] { evaluate(model, data, Metric::kAccuracy); },
      [&] { require_forward(model, "so data cannot be used", ", or leave `data` out"); }};
  for (const auto& call : calls) {
    try {
      call();
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUsage);
      const std::string said = error.what();
      EXPECT_TRUE(said.starts_with("the model has weights and no program that can be run here"))
          << said;
      EXPECT_NE(said.find("; name its architecture with `arch`"), std::string::npos) << said;
      EXPECT_EQ(said.find("file"), std::string::npos) << said;
    }
  }
  EXPECT_NO_THROW(
      require_forward(*build_model("mlp:64-10", builtin_registry()), "so it cannot be trained"));
}

TEST(StateDictModel, LoadTensorsChecksNames) {
  const auto make = [](const char* name) {
    NamedParameter entry;
    entry.info.name = name;
    entry.info.shape = {2};
    entry.tensor = torch::ones({2});
    entry.trainable = true;
    return entry;
  };
  StateDictModel model({make("a"), make("b")});
  NamedParameter b = make("b");
  b.tensor.fill_(3);
  load_tensors(model, {b, make("a")});
  EXPECT_EQ(find(model, "b").tensor[0].item<float>(), 3);
  expect_error(
      [&] {
        load_tensors(model, {make("a"), make("c")});
      },
      Errc::kShapeMismatch, {"missing b [2]", "unexpected c [2]"});
}

}  // namespace
}  // namespace gbcompress
