/// Associated learning through the shipped plugin: what each component learns from, the pipeline
/// across batches, and what is refused.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include <map>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"
#include "gbcompress/strategy.h"
#include "gbcompress/train.h"
#include "plugin/door.h"

namespace gbcompress {
namespace {

using test::expect_has;
using test::usage_refusal;

constexpr std::int64_t kRows = 16;

const PluginHost& host() {
  static PluginHost& one = *new PluginHost;
  if (one.loaded().empty()) {
    one.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
    for (const char* name : {"linear", "conv", "al", "nets"}) one.load(test::builtin(name));
  }
  return one;
}

void seed(std::uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(value);
}

BottleneckOptions all_plain() {
  BottleneckOptions options;
  options.min_elements = 1 << 30;
  return options;
}

/// A model of four stages that a strategy trains by plain gradient descent, so that a batch without
/// a gradient changes nothing.
struct Training {
  explicit Training(const std::string& options, const std::string& arch = "mlp:20-24-16-12-5",
                    std::vector<std::int64_t> sample = {20}, bool of_tokens = false)
      : shape(std::move(sample)), tokens(of_tokens) {
    seed(5);
    model = build_model(arch, host().registry());
    bottleneck.emplace(model->tensors(), host().registry(), all_plain());
    StrategySetup setup{*model, *bottleneck};
    setup.loss = [](const at::Tensor& output, const StrategyBatch& batch) {
      return at::cross_entropy_loss(output, batch.targets);
    };
    setup.example = batch_of(0).inputs.slice(0, 0, 1);
    setup.seed = 3;
    setup.batch = kRows;
    strategy = make_strategy({"al", options}, setup, host().registry());
    model->train(true);
  }
  StrategyBatch batch_of(std::int64_t step) const {
    at::Generator generator =
        at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 + step));
    StrategyBatch batch;
    const std::int64_t rows = step % 3 == 2 ? kRows - 5 : kRows;
    std::vector<std::int64_t> sizes = {rows};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    batch.inputs = at::randn(sizes, generator);
    if (tokens) batch.inputs = at::randint(0, 30, sizes, generator, at::kLong);
    batch.targets = at::randint(0, 5, {rows}, generator, at::kLong);
    batch.step = step;
    for (std::int64_t i = 0; i < rows; ++i) batch.samples.push_back(step * kRows + i);
    return batch;
  }
  Measurements step(std::int64_t number) {
    const c10::AutoGradMode with_grad(true);
    bottleneck->zero_grad();
    const Measurements measured = strategy->step(batch_of(number));
    const c10::NoGradGuard no_grad;
    for (NamedParameter& p : model->tensors())
      if (p.trainable) p.tensor.sub_(p.tensor.grad(), 0.05);
    return measured;
  }
  std::map<std::string, at::Tensor> weights() const {
    std::map<std::string, at::Tensor> result;
    for (const NamedParameter& p : model->tensors())
      result[p.info.name] = p.tensor.detach().clone();
    return result;
  }

  std::vector<std::int64_t> shape;
  bool tokens;
  std::unique_ptr<Model> model;
  std::optional<GenomicBottleneck> bottleneck;
  std::unique_ptr<Strategy> strategy;
};

void expect_same(const std::vector<StateEntry>& a, const std::vector<StateEntry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
}

std::string refusal(const std::string& options, const std::string& arch = "mlp:20-24-16-12-5") {
  return usage_refusal(options, [&] { Training training(options, arch); });
}

TEST(Al, AnEmbeddingLearnsWithItsFirstLayerUnlessSplitSaysOtherwise) {
  const auto after_a_step = [](const std::string& options) {
    Training training(options, "lstm-classifier:30-8-2-5", {9}, true);
    training.step(0);
    return training.weights().at("embedding.weight");
  };
  EXPECT_TRUE(at::equal(after_a_step(""), after_a_step("split=2,1")));
  EXPECT_FALSE(at::equal(after_a_step(""), after_a_step("split=1,1,1")));
  const auto components = [](const std::string& arch, std::vector<std::int64_t> sample,
                             bool tokens) {
    return Training("", arch, sample, tokens).step(0).more.size() / 2;  // two losses of each
  };
  EXPECT_EQ(components("lstm-classifier:30-8-2-5", {9}, true), 2u);
  EXPECT_EQ(components("mlp:20-24-16-12-5", {20}, false), 3u);
}

TEST(Al, APipelineHasTheBitsOfOneBatchAfterAnother) {
  // Component i sees its n-th batch i steps later; nothing it needs comes from behind it.
  for (const char* options : {"pipeline=1", "pipeline=1 threads=3"}) {
    std::vector<std::map<std::string, at::Tensor>> plain, piped;
    Training alone(""), together(options);
    for (std::int64_t n = 0; n < 9; ++n) {
      alone.step(n);
      together.step(n);
      plain.push_back(alone.weights());
      piped.push_back(together.weights());
    }
    const char* stages[] = {"0", "2", "4", "6"};
    for (std::size_t late = 0; late < 4; ++late)
      for (std::size_t n = 0; n + late < 9; ++n)
        for (const char* kind : {".weight", ".bias"}) {
          const std::string name = stages[late] + std::string(kind);
          EXPECT_TRUE(at::equal(plain[n].at(name), piped[n + late].at(name)))
              << options << ": " << name << " after batch " << n;
        }
    EXPECT_FALSE(at::equal(plain[8].at("0.weight"), plain[7].at("0.weight")));
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

TEST(Al, AComponentKnowsNothingOfThoseBehindIt) {
  Training one(""), other("");
  for (NamedParameter& p : other.model->tensors())
    if (p.info.name[0] != '0' && p.info.name[0] != '2') p.tensor.detach().add_(0.3);
  one.step(0);
  other.step(0);
  const auto grad = [](const Training& t, const std::string& name) {
    for (const NamedParameter& p : t.model->tensors())
      if (p.info.name == name) return p.tensor.grad().clone();
    return at::Tensor();
  };
  for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias"})
    EXPECT_TRUE(at::equal(grad(one, name), grad(other, name))) << name;
  for (const char* name : {"4.weight", "6.weight"})
    EXPECT_FALSE(at::equal(grad(one, name), grad(other, name))) << name;
}

TEST(Al, ExitsAnswerBeforeTheEnd) {
  Training training("exits=1");
  std::map<std::string, double> more;
  for (std::int64_t n = 0; n < 300; ++n) {
    // The same batch again and again is learned by heart at every exit.
    const c10::AutoGradMode with_grad(true);
    training.bottleneck->zero_grad();
    more = training.strategy->step(training.batch_of(0)).more;
    const c10::NoGradGuard no_grad;
    for (NamedParameter& p : training.model->tensors())
      if (p.trainable) p.tensor.sub_(p.tensor.grad(), 0.05);
  }
  for (const char* exit : {"exit_accuracy.1", "exit_accuracy.2", "exit_accuracy.3"})
    EXPECT_GT(more.at(exit), 90) << exit;
}

TEST(Al, ExitsThatTheFileHoldsAreTheModels) {
  Training training("pipeline=1", "exits:split=1+2,width=6,bridge=7:mlp:20-24-16-12-5");
  Model& model = *training.model;
  const auto begin = training.weights();
  for (std::int64_t n = 0; n < 5; ++n) training.step(n);
  const auto w = training.weights();
  for (const char* name : {"exit1.bridge0.weight", "exit1.bridge1.bias", "exit1.back.weight",
                           "exit2.bridge0.bias", "exit2.bridge1.weight", "exit2.back.bias"})
    EXPECT_FALSE(at::equal(begin.at(name), w.at(name))) << name;
  for (const StateEntry& entry : training.strategy->aux_state())
    EXPECT_NE(entry.value.sizes(), w.at("exit1.bridge0.weight").sizes()) << "a bridge of its own";

  // Each exit beside the same by hand: bridge K, then `back` of K, ..., 1.
  const c10::NoGradGuard no_grad;
  const at::Tensor x = training.batch_of(9).inputs;
  const auto layer = [&](const std::string& name, const at::Tensor& in) {
    return at::linear(in, w.at(name + ".weight"), w.at(name + ".bias"));
  };
  const auto code = [&](const std::string& exit, const at::Tensor& in) {
    return at::tanh(layer(exit + ".bridge1", at::relu(layer(exit + ".bridge0", in))));
  };
  model.train(false);
  const at::Tensor end = model.forward(x);
  const at::Tensor one = at::relu(layer("0", x));
  ASSERT_EQ(model.exits().size(), 2u);
  model.take_exit(1);
  EXPECT_TRUE(at::allclose(model.forward(x), layer("exit1.back", code("exit1", one))));
  model.take_exit(2);
  const at::Tensor three = at::relu(layer("4", at::relu(layer("2", one))));
  EXPECT_TRUE(at::allclose(model.forward(x),
                           layer("exit1.back", layer("exit2.back", code("exit2", three)))));
  model.take_exit(0);
  EXPECT_TRUE(at::equal(model.forward(x), end));
  expect_has(usage_refusal("exit 3", [&] { model.take_exit(3); }), {"no exit 3", "exits 1 to 2"});
}

TEST(Al, ExitsAreChecked) {
  const std::string net = "mlp:20-24-16-12-5";
  const auto arch = [](const std::string& name) {
    return usage_refusal(name, [&] { build_model(name, host().registry()); });
  };
  expect_has(arch("exits:"), {"name the architecture"});
  expect_has(arch("exits:width=3"), {"name the architecture"});
  expect_has(arch("exits:width=0:" + net), {"width", "1 to 65536"});
  expect_has(arch("exits:depth=2:" + net), {"depth", "split, width, bridge, pool"});
  expect_has(arch("exits:split=2+2:" + net), {"4 stages", "has 3"});
  expect_has(arch("exits:mlp:20-5"), {"stages"});
  expect_has(arch("exits:nothing"), {"no architecture named", "nothing"});
  std::string deep = net;
  for (int i = 0; i < 12; ++i) deep = "exits:" + deep;
  expect_has(arch(deep), {"within each other"});
  expect_has(refusal("widths=8", "exits:" + net), {"widths", "architecture"});
  // Nothing is trained in no epochs, so that nothing is refused.
  const auto model = build_model("exits:mlp:64-16-12-10", host().registry());
  GenomicBottleneck bottleneck(model->tensors(), host().registry(), all_plain());
  const Data digits = open_data("digits");
  TrainOptions options;
  options.epochs = 1;
  expect_has(usage_refusal("backprop", [&] { train(*model, bottleneck, digits.train, options); }),
             {"backprop", "early exits", "al"});
  options.epochs = 0;
  EXPECT_NO_THROW(train(*model, bottleneck, digits.train, options));
}

TEST(Al, PaddingChangesNoAnswer) {
  for (const char* arch : {"lstm-classifier:30-8-2-5", "transformer-classifier:30-8-2-5"}) {
    const auto model = build_model(arch, host().registry());
    model->train(false);
    const c10::NoGradGuard no_grad;
    at::Generator generator = at::detail::createCPUGenerator(3);
    const at::Tensor text = at::randint(1, 30, {4, 7}, generator, at::kLong);
    const at::Tensor padded = at::constant_pad_nd(text, {0, 5});
    EXPECT_TRUE(at::allclose(model->forward(text), model->forward(padded), 1e-5, 1e-6)) << arch;
    EXPECT_FALSE(at::allclose(model->forward(text), model->forward(text.slice(1, 0, 6)))) << arch;
    EXPECT_TRUE(model->forward(at::zeros({2, 3}, at::kLong)).isfinite().all().item<bool>()) << arch;
  }
}

TEST(Al, TrainsNetsOfEveryKind) {
  struct Kind {
    const char* arch;
    std::vector<std::int64_t> sample;
    bool tokens;
  };
  for (const Kind& kind : std::vector<Kind>{{"vgg11", {3, 32, 32}, false},
                                            {"simple-vgg:4", {3, 32, 32}, false},
                                            {"lstm-classifier:30-16-2-5", {9}, true},
                                            {"transformer-classifier:30-16-2-5", {9}, true}}) {
    Training training("", kind.arch, kind.sample, kind.tokens);
    EXPECT_TRUE(std::isfinite(training.step(0).loss)) << kind.arch;
    for (const NamedParameter& p : training.model->tensors())
      if (p.trainable)
        EXPECT_GT(p.tensor.grad().abs().max().item<float>(), 0) << kind.arch << " " << p.info.name;
  }
}

TEST(Al, OptionsAreChecked) {
  expect_has(refusal("split=2,2"), {"split", "names 4 stages", "3 before its last"});
  expect_has(refusal("split=0,3"), {"split"});
  expect_has(refusal("widths=8,8"), {"widths has 2 values", "3 components"});
  expect_has(refusal("split=1,2 widths=8,8,8"), {"widths has 3 values", "2 components"});
  expect_has(refusal("threads=2"), {"threads", "pipeline=1"});
  expect_has(refusal("lr=0"), {"lr"});
  expect_has(refusal("", "mlp:20-5"), {"one stage"});
  EXPECT_NO_THROW(Training("split=1,2 widths=8,6 bridge=0"));
  EXPECT_NO_THROW(Training("", "lenet5", {1, 28, 28}));
}

TEST(Al, ALabelThatNoClassHasIsRefused) {
  Training training("");
  StrategyBatch batch = training.batch_of(0);
  batch.targets[0] = 5;
  try {
    training.strategy->step(batch);
    FAIL() << "label 5 of 5 classes was taken";
  } catch (const Error& error) {
    expect_has(error.what(), {"a label is 5", "5 classes"});
  }
}

TEST(Al, ReadsTheDigits) {
  for (const char* options : {"", "pipeline=1"}) {
    const Data digits = open_data("digits");
    seed(1);
    const auto model = build_model("mlp:64-64-32-10", host().registry());
    BottleneckOptions plain = all_plain();
    plain.plain_optimizer.lr = 3e-3;
    GenomicBottleneck bottleneck(model->tensors(), host().registry(), plain);
    TrainOptions run;
    run.epochs = 15;
    run.strategy = {"al", options};
    const auto strategy =
        make_strategy(run.strategy, strategy_setup(*model, bottleneck, digits.train, run, nullptr),
                      host().registry());
    train(*model, bottleneck, digits.train, run, nullptr, {}, {}, strategy.get());
    EXPECT_GT(evaluate(*model, digits.test, Metric::kAccuracy), 90) << options;
  }
}

}  // namespace
}  // namespace gbcompress
