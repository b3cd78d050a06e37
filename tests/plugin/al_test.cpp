/// Associated learning through the shipped plugin: what each component learns from, exits, and what
/// is refused.
#include "gbcompress/train.h"
#include "plugin/al_training.h"

namespace gbcompress {
namespace {

using test::all_plain;
using test::expect_has;
using test::host;
using test::refused_options;
using test::seed;
using test::Training;
using test::usage_refusal;

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
    std::size_t count = 0;
    for (const auto& [name, value] : Training("", arch, sample, tokens).step(0).more)
      count += name.starts_with("code_loss.") ? 1 : 0;
    return count;
  };
  EXPECT_EQ(components("lstm-classifier:30-8-2-5", {9}, true), 2u);
  EXPECT_EQ(components("mlp:20-24-16-12-5", {20}, false), 3u);
  // The exits that a file holds are behind the same components, unless it says otherwise or was
  // written when an embedding had one of its own.
  const auto net = [](const std::string& arch, std::vector<ParameterInfo> weights = {}) {
    return weights.empty() ? build_model(arch, host().registry())
                           : build_for(arch, weights, host().registry());
  };
  const auto stages = [](const Model& model) {
    std::vector<std::size_t> counts;
    for (const Exit& exit : model.exits()) counts.push_back(exit.stages);
    return counts;
  };
  const std::string lstm = "lstm-classifier:30-8-2-5";
  using Stages = std::vector<std::size_t>;
  EXPECT_EQ(stages(*net("exits:" + lstm)), (Stages{2, 3}));
  EXPECT_EQ(stages(*net("exits:width=8:" + lstm)), (Stages{2, 3}));
  const auto each = net("exits:split=1+1+1:" + lstm);
  EXPECT_EQ(stages(*each), (Stages{1, 2, 3}));
  EXPECT_EQ(stages(*net("exits:mlp:20-24-16-12-5")), (Stages{1, 2, 3}));
  std::vector<ParameterInfo> earlier;
  for (const NamedParameter& p : each->tensors()) earlier.push_back(p.info);
  EXPECT_EQ(stages(*net("exits:" + lstm, earlier)), (Stages{1, 2, 3}));
  EXPECT_EQ(components("exits:" + lstm, {9}, true), 2u);
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

TEST(Al, PublishedFormsFollowThePublishedFormulas) {
  Training training("codes=sigmoid hidden=codes decoder=codes loss=mse widths=6 bridge=7");
  const auto own = training.strategy->aux_state();
  const auto part = [&](const std::string& name) {
    for (const StateEntry& entry : own)
      if (entry.name == name) return entry.value.clone();
    ADD_FAILURE() << "no " << name;
    return at::Tensor();
  };
  // Bridge: two layers, their moments, steps; then g and h.
  const std::string c = "component0#";
  const at::Tensor b0 = part(c + "0"), b0_bias = part(c + "1"), b1 = part(c + "2"),
                   b1_bias = part(c + "3"), g = part(c + "13"), g_bias = part(c + "14"),
                   h = part(c + "15"), h_bias = part(c + "16");
  const StrategyBatch batch = training.batch_of(0);
  const c10::NoGradGuard no_grad;
  const at::Tensor signal = training.model->stages()[0].forward(batch.inputs);
  const at::Tensor label = at::one_hot(batch.targets, 5).to(at::kFloat);
  const at::Tensor code = at::sigmoid(at::linear(label, g, g_bias));
  const at::Tensor back = at::sigmoid(at::linear(code, h, h_bias));
  const at::Tensor bridge =
      at::sigmoid(at::linear(at::sigmoid(at::linear(signal, b0, b0_bias)), b1, b1_bias));
  const auto more = training.step(0).more;
  EXPECT_NEAR(more.at("code_loss.1"), at::mse_loss(back, label).item<double>(), 1e-6);
  EXPECT_NEAR(more.at("bridge_loss.1"), at::mse_loss(bridge, code).item<double>(), 1e-6);
  // h without an activation gives scores of classes: the texts' form.
  Training texts("loss=mse widths=6 bridge=0");
  EXPECT_GT(texts.step(0).more.at("code_loss.1"), 1) << "a cross-entropy near ln 5";
}

TEST(Al, ExitsHaveTheFormsOfTheirArchitecture) {
  Training training("loss=mse",
                    "exits:split=1+2,width=6,bridge=7,codes=sigmoid,hidden=codes,decoder=codes:"
                    "mlp:20-24-16-12-5");
  training.step(0);
  const auto w = training.weights();
  const c10::NoGradGuard no_grad;
  const at::Tensor x = training.batch_of(3).inputs;
  const auto layer = [&](const std::string& name, const at::Tensor& in) {
    return at::sigmoid(at::linear(in, w.at(name + ".weight"), w.at(name + ".bias")));
  };
  training.model->train(false);
  const at::Tensor one = at::relu(at::linear(x, w.at("0.weight"), w.at("0.bias")));
  training.model->take_exit(1);
  EXPECT_TRUE(
      at::allclose(training.model->forward(x),
                   layer("exit1.back", layer("exit1.bridge1", layer("exit1.bridge0", one)))));
}

TEST(Al, TheLearningRateOfBridgesFallsToItsEnd) {
  const auto moved = [](std::int64_t number) {
    Training training("lr=0.01 lr_end=0");
    const auto before = training.strategy->aux_state().front().value.clone();
    training.step(number);
    return (training.strategy->aux_state().front().value - before).abs().max().item<double>();
  };
  EXPECT_NEAR(moved(0), 0.01, 1e-4);
  EXPECT_NEAR(moved(test::kSteps - 1), 0, 1e-9);
  EXPECT_GT(moved(3), moved(5));
}

TEST(Al, ExitsAreChecked) {
  const std::string net = "mlp:20-24-16-12-5";
  const auto arch = [](const std::string& name) {
    return usage_refusal(name, [&] { build_model(name, host().registry()); });
  };
  expect_has(arch("exits:"), {"name the architecture"});
  expect_has(arch("exits:width=3"), {"name the architecture"});
  expect_has(arch("exits:width=0:" + net), {"width", "1 to 65536"});
  expect_has(arch("exits:depth=2:" + net), {"depth", "split, width, bridge, pool, codes"});
  expect_has(arch("exits:split=2+2:" + net), {"4 stages", "has 3"});
  expect_has(arch("exits:mlp:20-5"), {"stages"});
  expect_has(arch("exits:nothing"), {"no architecture named", "nothing"});
  std::string deep = net;
  for (int i = 0; i < 12; ++i) deep = "exits:" + deep;
  expect_has(arch(deep), {"within each other"});
  expect_has(refused_options("widths=8", "exits:" + net), {"widths", "architecture"});
  expect_has(refused_options("codes=sigmoid", "exits:" + net), {"codes", "architecture"});
  expect_has(arch("exits:codes=relu:" + net), {"codes", "tanh or sigmoid"});
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

/// Sets the embedding of token 5 to a constant.
void set_embedding(Model& model, double value) {
  const c10::NoGradGuard no_grad;
  for (NamedParameter& p : model.tensors())
    if (p.info.name == "embedding.weight") p.tensor[5].fill_(value);
}

TEST(Al, ATokenWithAnEmbeddingOfZeroIsNoPadding) {
  // Next to 0 its embedding is not 0, and nothing else changes.
  const std::string net = "lstm-classifier:30-8-2-5";
  for (const std::string& arch :
       std::vector<std::string>{net, "transformer-classifier:30-8-2-5", "exits:" + net}) {
    const auto model = build_model(arch, host().registry());
    model->train(false);
    const c10::NoGradGuard no_grad;
    const at::Tensor text = at::tensor({5, 7, 5, 9, 5, 5, 0, 0}, at::kLong).view({1, 8});
    for (std::size_t exit = 0; exit <= model->exits().size(); ++exit) {
      model->take_exit(static_cast<std::int64_t>(exit));
      set_embedding(*model, 0);
      const at::Tensor zero = model->forward(text);
      set_embedding(*model, 1e-7);
      EXPECT_TRUE(at::allclose(zero, model->forward(text), 1e-4, 1e-5)) << arch << " exit " << exit;
      EXPECT_FALSE(at::allclose(zero, model->forward(text.eq(5).logical_not() * text)))
          << arch << " exit " << exit;
    }
  }
  const auto losses = [&](double value, const std::string& options) {
    Training training(options, net, {9}, true);
    set_embedding(*training.model, value);
    const auto measured = training.step(0).more;
    return std::vector{measured.at("bridge_loss.1"), measured.at("bridge_loss.2")};
  };
  for (const char* options : {"", "split=1,1,1"}) {
    const auto zero = losses(0, options), next = losses(1e-7, options);
    for (std::size_t i = 0; i < zero.size(); ++i) EXPECT_NEAR(zero[i], next[i], 1e-5) << options;
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
                                            {"simple-vgg:6,4:5", {3, 32, 32}, false},
                                            {"vgg-al:5", {3, 32, 32}, false},
                                            {"resnet18:5", {3, 32, 32}, false},
                                            {"bilstm-classifier:30-16-2-5", {9}, true},
                                            {"lstm-classifier:30-16-2-5", {9}, true},
                                            {"transformer-classifier:30-16-2-5", {9}, true}}) {
    Training training("", kind.arch, kind.sample, kind.tokens);
    EXPECT_TRUE(std::isfinite(training.step(0).loss)) << kind.arch;
    for (const NamedParameter& p : training.model->tensors()) {
      if (!p.trainable) continue;
      EXPECT_GT(p.tensor.grad().abs().max().item<float>(), 0) << kind.arch << " " << p.info.name;
    }
  }
}

TEST(Al, OptionsAreChecked) {
  expect_has(refused_options("split=2,2"), {"split", "names 4 stages", "3 before its last"});
  expect_has(refused_options("split=0,3"), {"split"});
  expect_has(refused_options("widths=8,8"), {"widths has 2 values", "3 components"});
  expect_has(refused_options("split=1,2 widths=8,8,8"), {"widths has 3 values", "2 components"});
  expect_has(refused_options("threads=2"), {"threads", "pipeline=1"});
  expect_has(refused_options("placement=0,0,0,0"), {"placement", "pipeline=1"});
  expect_has(refused_options("pipeline=1 placement=0,0"), {"placement", "2 ranks", "3 components"});
  expect_has(refused_options("lr=0"), {"lr"});
  expect_has(refused_options("codes=relu"), {"codes", "tanh or sigmoid"});
  expect_has(refused_options("hidden=tanh"), {"hidden", "relu or codes"});
  expect_has(refused_options("decoder=relu"), {"decoder", "none or codes"});
  expect_has(refused_options("loss=l1"), {"loss", "nats or mse"});
  expect_has(refused_options("lr_end=-1"), {"lr_end"});
  expect_has(refused_options("beta2=1"), {"beta2", "0.999999"});
  expect_has(refused_options("", "mlp:20-5"), {"one stage"});
  EXPECT_NO_THROW(Training("split=1,2 widths=8,6 bridge=0"));
  EXPECT_NO_THROW(Training("", "lenet5", {1, 28, 28}));
}

TEST(Al, Beta2IsThatOfBridgesAndAutoencoders) {
  const auto state_after = [](const std::string& options) {
    Training training(options);
    for (std::int64_t n = 0; n < 3; ++n) training.step(n);
    return training.strategy->aux_state().front().value.clone();
  };
  EXPECT_TRUE(at::equal(state_after(""), state_after("beta2=0.95")));
  EXPECT_FALSE(at::equal(state_after(""), state_after("beta2=0.999")));
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
