/// Associated learning in a pipeline across batches: the bits of one batch after another.
#include "plugin/al_training.h"

namespace gbcompress {
namespace {

using test::all_plain;
using test::expect_same;
using test::Training;

using History = std::vector<std::map<std::string, at::Tensor>>;

/// Weights before the first batch and after each: component i sees its n-th batch i steps later;
/// nothing it needs comes from behind it, and it is as it was until then.
void expect_pipelined(const History& one_by_one, const History& piped, const std::string& label) {
  const char* stages[] = {"0", "2", "4", "6"};
  for (std::size_t late = 0; late < 4; ++late)
    for (const char* kind : {".weight", ".bias"}) {
      const std::string name = stages[late] + std::string(kind);
      for (std::size_t n = 0; n < late; ++n)
        EXPECT_TRUE(at::equal(piped[n].at(name), piped[n + 1].at(name)))
            << label << ": " << name << " in empty step " << n;
      for (std::size_t n = 0; n + late < piped.size(); ++n)
        EXPECT_TRUE(at::equal(one_by_one[n].at(name), piped[n + late].at(name)))
            << label << ": " << name << " after batch " << n;
      EXPECT_FALSE(at::equal(piped.front().at(name), piped.back().at(name))) << label << name;
    }
}

TEST(Al, APipelineHasTheBitsOfOneBatchAfterAnother) {
  for (const char* options : {"pipeline=1", "pipeline=1 threads=3"}) {
    Training alone(""), together(options);
    History plain = {alone.weights()}, piped = {together.weights()};
    for (std::int64_t n = 0; n < 9; ++n) {
      alone.step(n);
      together.step(n);
      plain.push_back(alone.weights());
      piped.push_back(together.weights());
    }
    expect_pipelined(plain, piped, options);
  }
}

TEST(Al, APipelineDropsWhatOneBatchAfterAnotherDrops) {
  const std::string arch = "lstm-classifier:30-8-3-5:0.4";
  const auto end = [&](const std::string& options, std::int64_t steps) {
    Training training(options, arch, {9}, /*of_tokens=*/true);
    for (std::int64_t n = 0; n < steps; ++n) training.step(n);
    return training.weights();
  };
  const auto plain = end("", 6), piped = end("pipeline=1", 6 + 2),
             other = end("pipeline=1 threads=3", 6 + 2);
  // The third layer and the head are behind by two components.
  for (const char* name : {"layer3.weight_ih_l0", "layer3.bias_hh_l0"}) {
    EXPECT_TRUE(at::equal(plain.at(name), piped.at(name))) << name;
    EXPECT_TRUE(at::equal(plain.at(name), other.at(name))) << name;
  }
  Training without("", "lstm-classifier:30-8-3-5", {9}, true);
  for (std::int64_t n = 0; n < 6; ++n) without.step(n);
  EXPECT_FALSE(
      at::equal(plain.at("layer3.weight_ih_l0"), without.weights().at("layer3.weight_ih_l0")))
      << "nothing was dropped";
}

/// Plain parameters, integers, g-nets, g-nets of integers; each with weight decay.
std::map<std::string, BottleneckOptions> all_kinds() {
  std::map<std::string, BottleneckOptions> kinds;
  BottleneckOptions& plain = kinds["plain"] = all_plain();
  plain.plain_optimizer.lr = 0.01;
  plain.plain_optimizer.weight_decay = 0.1;
  BottleneckOptions& coded = kinds["quantized"];
  coded.mode = WeightMode::kQuantized;
  coded.min_elements = 1;
  coded.rate.lambda = 0;
  coded.quantized_optimizer.weight_decay = 0.1;
  BottleneckOptions& gnets = kinds["g-nets"];
  gnets.mode = WeightMode::kGenerated;
  gnets.min_elements = 1;
  gnets.gnet.hidden = {4};
  gnets.gnet.tile_weights = 64;
  gnets.gnet_optimizer.weight_decay = 0.1;
  kinds["coded g-nets"] = gnets;
  kinds["coded g-nets"].coding = Coding::kCoded;
  kinds["coded g-nets"].rate.lambda = 0;
  return kinds;
}

TEST(Al, APipelineHasTheStepsOfAdamWWithoutEmptyOnes) {
  // Three layers of one shape, whose g-nets are one bank.
  const std::string arch = "mlp:16-16-16-16-5";
  const auto check = [&](const std::string& kind, const BottleneckOptions& stored,
                         const std::string& options) {
    Training alone("", arch, {16}, false, stored), together(options, arch, {16}, false, stored);
    alone.bottleneck->predict_weights();
    together.bottleneck->predict_weights();
    History one_by_one = {alone.weights()}, piped = {together.weights()};
    for (std::int64_t n = 0; n < 7; ++n) {
      alone.optimize(n);
      together.optimize(n);
      one_by_one.push_back(alone.weights());
      piped.push_back(together.weights());
    }
    EXPECT_EQ(together.bottleneck->layers().size(), kind.ends_with("g-nets") ? 4u : 0u) << kind;
    expect_pipelined(one_by_one, piped, kind + " " + options);
  };
  for (const auto& [kind, stored] : all_kinds())
    for (const char* options : {"pipeline=1", "pipeline=1 threads=2"}) check(kind, stored, options);
}

TEST(Al, ATrainingStateKeepsWhatEachComponentWasLeftOutOf) {
  const std::string arch = "mlp:16-16-16-16-5";
  for (const auto& [kind, stored] : all_kinds()) {
    Training whole("pipeline=1", arch, {16}, false, stored);
    whole.bottleneck->predict_weights();
    for (std::int64_t n = 0; n < 2; ++n) whole.optimize(n);
    Training resumed("pipeline=1", arch, {16}, false, stored);
    std::vector<StateEntry> waiting = whole.strategy->aux_state();
    for (StateEntry& entry : waiting) entry.value = entry.value.clone();
    resumed.bottleneck->restore_training_state(whole.bottleneck->training_state());
    resumed.strategy->restore(waiting);
    resumed.bottleneck->predict_weights();
    for (std::int64_t n = 2; n < 6; ++n) {
      whole.optimize(n);
      resumed.optimize(n);
    }
    expect_same(whole.bottleneck->training_state(), resumed.bottleneck->training_state());
  }
}

TEST(Al, ResidualNetsArePipelinesToo) {
  // Three components of a ResNet, cut between its blocks, with batch statistics.
  const std::string options = "split=4,3,3 widths=8 bridge=0 pipeline=";
  Training alone(options + "0", "resnet20", {3, 32, 32}),
      together(options + "1 threads=2", "resnet20", {3, 32, 32});
  const char* const weights[] = {"conv1.weight", "layer1.2.conv2.weight", "layer2.0.bn1.weight"};
  const auto begin = alone.weights();
  for (std::int64_t n = 0; n < 2; ++n) alone.step(n);
  for (std::int64_t n = 0; n < 2; ++n) together.step(n);
  for (const char* name : weights)
    EXPECT_FALSE(at::equal(begin.at(name), alone.weights().at(name)));
  // The first component is as far along; the second has seen one batch less.
  for (const char* name : {"conv1.weight", "layer1.2.conv2.weight"})
    EXPECT_TRUE(at::equal(alone.weights().at(name), together.weights().at(name))) << name;
  together.step(2);
  EXPECT_TRUE(at::equal(alone.weights().at("layer2.0.bn1.weight"),
                        together.weights().at("layer2.0.bn1.weight")));
}

TEST(Al, APipelineOfTextsIsTakenUpWithItsMasks) {
  const auto start = [] { return Training("pipeline=1", "lstm-classifier:30-8-2-5", {9}, true); };
  Training whole = start(), resumed = start();
  for (std::int64_t n = 0; n < 4; ++n) whole.step(n);
  std::vector<StateEntry> state = whole.strategy->aux_state();
  for (StateEntry& entry : state) entry.value = entry.value.clone();
  const auto weights = whole.weights();
  for (NamedParameter& p : resumed.model->tensors())
    p.tensor.detach().copy_(weights.at(p.info.name));
  resumed.strategy->restore(state);
  for (std::int64_t n = 4; n < 7; ++n) EXPECT_EQ(whole.step(n).loss, resumed.step(n).loss);
  expect_same(whole.strategy->aux_state(), resumed.strategy->aux_state());
}

TEST(Al, APipelineIsTakenUpInTheMiddle) {
  Training whole("pipeline=1");
  for (std::int64_t n = 0; n < 4; ++n) whole.step(n);
  std::vector<StateEntry> state = whole.strategy->aux_state();
  for (StateEntry& entry : state) entry.value = entry.value.clone();
  const auto weights = whole.weights();

  Training resumed("pipeline=1 threads=2");
  const auto fresh = resumed.strategy->aux_state();
  ASSERT_EQ(fresh.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(fresh[i].name, state[i].name);
    EXPECT_EQ(fresh[i].value.sizes(), state[i].value.sizes()) << state[i].name;
  }
  for (NamedParameter& p : resumed.model->tensors())
    p.tensor.detach().copy_(weights.at(p.info.name));
  resumed.strategy->restore(state);
  for (std::int64_t n = 4; n < 8; ++n)
    EXPECT_EQ(whole.step(n).loss, resumed.step(n).loss) << "batch " << n;
  expect_same(whole.strategy->aux_state(), resumed.strategy->aux_state());
  for (const auto& [name, value] : whole.weights())
    EXPECT_TRUE(at::equal(value, resumed.weights().at(name))) << name;
}

}  // namespace
}  // namespace gbcompress
