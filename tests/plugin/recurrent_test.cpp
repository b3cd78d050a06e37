/// Recurrent modules and embedding tables of LibTorch through the shipped plugins: what is
/// generated, that gradients arrive, and that a file gives back what was predicted.
#include <torch/torch.h>

#include <map>

#include "gbcompress/bottleneck.h"
#include "plugin/door.h"
#include "support/files.h"

namespace gbcompress {
namespace {

const Registry& registry() {
  static PluginHost host;
  if (host.loaded().empty())
    for (const char* name : {"embedding", "linear", "recurrent"}) host.load(test::builtin(name));
  return host.registry();
}

BottleneckOptions small_tiles() {
  BottleneckOptions options;
  options.min_elements = 1;
  options.gnet.tile_weights = 200;
  options.gnet.hidden = {4};
  options.kernel = "reference";  // the bits of expand()
  return options;
}

/// How many matrices each generated parameter is seen as, by name.
std::map<std::string, std::int64_t> splits(const GenomicBottleneck& bottleneck) {
  std::map<std::string, std::int64_t> result;
  for (const auto& layer : bottleneck.layers()) result[layer.name] = layer.spec.view.row_splits;
  return result;
}

/// A few steps towards an arbitrary output; then the file must hold what the module computes with.
void expect_trains_and_comes_back(torch::nn::Module& module, const BottleneckOptions& options,
                                  const std::function<at::Tensor()>& forward) {
  GenomicBottleneck bottleneck(module, registry(), options);
  ASSERT_FALSE(bottleneck.layers().empty());
  double first = 0, last = 0;
  for (int step = 0; step < 12; ++step) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const at::Tensor loss = (forward() - 0.3).square().mean();
    loss.backward();
    bottleneck.backward();
    for (const auto& layer : bottleneck.layers())
      EXPECT_GT(layer.grad.abs().max().item<float>(), 0) << layer.name;
    (step == 0 ? first : last) = loss.item<double>();
    bottleneck.step();
  }
  EXPECT_LT(last, first);

  bottleneck.finish();
  const testing::TempDir folder;
  bottleneck.save(folder / "m.gbz");
  const auto stored = expand(ArtifactReader::open(folder / "m.gbz"), registry());
  const auto live = named_parameters(module);
  ASSERT_EQ(stored.size(), live.size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_EQ(stored[i].info.name, live[i].info.name);
    EXPECT_EQ(stored[i].tied_to, live[i].tied_to) << live[i].info.name;
    EXPECT_TRUE(at::equal(stored[i].tensor, live[i].tensor)) << live[i].info.name;
  }
}

TEST(Recurrent, LstmOfTwoLayersBothWaysWithProjections) {
  torch::manual_seed(3);
  torch::nn::LSTM lstm(
      torch::nn::LSTMOptions(10, 16).num_layers(2).bidirectional(true).proj_size(6));
  const GenomicBottleneck bottleneck(*lstm, registry(), small_tiles());
  std::map<std::string, std::int64_t> expected;
  for (const char* layer : {"l0", "l0_reverse", "l1", "l1_reverse"}) {
    expected[std::string("weight_ih_") + layer] = 4;
    expected[std::string("weight_hh_") + layer] = 4;
    expected[std::string("weight_hr_") + layer] = 1;
  }
  EXPECT_EQ(splits(bottleneck), expected);
  const at::Tensor x = torch::randn({7, 3, 10});
  expect_trains_and_comes_back(*lstm, small_tiles(), [&] { return std::get<0>(lstm->forward(x)); });
}

TEST(Recurrent, GruAndRnn) {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({6, 2, 24});
  torch::nn::GRU gru(torch::nn::GRUOptions(24, 20).bidirectional(true));
  EXPECT_EQ(splits(GenomicBottleneck(*gru, registry(), small_tiles())),
            (std::map<std::string, std::int64_t>{{"weight_hh_l0", 3},
                                                 {"weight_hh_l0_reverse", 3},
                                                 {"weight_ih_l0", 3},
                                                 {"weight_ih_l0_reverse", 3}}));
  expect_trains_and_comes_back(*gru, small_tiles(), [&] { return std::get<0>(gru->forward(x)); });
  torch::nn::RNN rnn(torch::nn::RNNOptions(24, 20));
  EXPECT_EQ(splits(GenomicBottleneck(*rnn, registry(), small_tiles())),
            (std::map<std::string, std::int64_t>{{"weight_hh_l0", 1}, {"weight_ih_l0", 1}}));
  expect_trains_and_comes_back(*rnn, small_tiles(), [&] { return std::get<0>(rnn->forward(x)); });
}

TEST(Recurrent, Cells) {
  torch::manual_seed(5);
  const at::Tensor x = torch::randn({4, 24});
  torch::nn::LSTMCell lstm(24, 20);
  torch::nn::GRUCell gru(24, 20);
  torch::nn::RNNCell rnn(24, 20);
  const auto cell = [](std::int64_t gates) {
    return std::map<std::string, std::int64_t>{{"weight_hh", gates}, {"weight_ih", gates}};
  };
  EXPECT_EQ(splits(GenomicBottleneck(*lstm, registry(), small_tiles())), cell(4));
  EXPECT_EQ(splits(GenomicBottleneck(*gru, registry(), small_tiles())), cell(3));
  EXPECT_EQ(splits(GenomicBottleneck(*rnn, registry(), small_tiles())), cell(1));
  // From a state that is not 0, so that weight_hh matters.
  const at::Tensor h = torch::randn({4, 20});
  expect_trains_and_comes_back(*lstm, small_tiles(), [&] {
    return std::get<0>(lstm->forward(x, std::tuple{h, h}));
  });
  expect_trains_and_comes_back(*gru, small_tiles(), [&] { return gru->forward(x, h); });
  expect_trains_and_comes_back(*rnn, small_tiles(), [&] { return rnn->forward(x, h); });
}

/// An output layer of somebody else's matrix.
struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const at::Tensor& table) : weight(register_parameter("weight", table)) {}
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight); }
  at::Tensor weight;
};
TORCH_MODULE(Head);

/// A language model whose two recurrent layers are one, and whose output layer is its table.
struct TiedNetImpl : torch::nn::Module {
  TiedNetImpl()
      : table(register_module("table", torch::nn::Embedding(40, 24))),
        first(register_module("first", torch::nn::LSTM(24, 24))),
        second(register_module("second", first)),
        head(register_module("head", Head(table->weight))) {}
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = std::get<0>(first->forward(table->forward(x)));
    return head->forward(std::get<0>(second->forward(hidden)));
  }
  torch::nn::Embedding table;
  torch::nn::LSTM first, second;
  Head head;
};
TORCH_MODULE(TiedNet);

TEST(Recurrent, TiedLayersAreOne) {
  torch::manual_seed(6);
  TiedNet net;
  const auto generated = splits(GenomicBottleneck(*net, registry(), small_tiles()));
  EXPECT_EQ(generated, (std::map<std::string, std::int64_t>{{"first.weight_hh_l0", 4},
                                                            {"first.weight_ih_l0", 4}}));
  const at::Tensor x = torch::randint(40, {5, 3}, torch::kLong);
  expect_trains_and_comes_back(*net, small_tiles(), [&] { return net->forward(x); });
}

TEST(Embedding, IsGeneratedOnlyWhereARuleAsks) {
  torch::manual_seed(7);
  TiedNet net;
  BottleneckOptions options = small_tiles();
  LayerRule rule;
  rule.match = "table.*";
  rule.tile_weights = 300;
  options.layers = {rule};
  EXPECT_FALSE(splits(GenomicBottleneck(*net, registry(), options)).contains("table.weight"))
      << "a rule that does not ask for the type";
  options.layers[0].type = "embedding";
  EXPECT_EQ(splits(GenomicBottleneck(*net, registry(), options)).count("table.weight"), 1u);
  const at::Tensor x = torch::randint(40, {5, 3}, torch::kLong);
  expect_trains_and_comes_back(*net, options, [&] { return net->forward(x); });
}

}  // namespace
}  // namespace gbcompress
