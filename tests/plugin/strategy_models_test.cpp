/// Which architectures the local strategies train, beside the table of
/// docs/explanation/strategies.md; parameters that two components share.
#include <torch/torch.h>

#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include "gbcompress/bottleneck.h"
#include "gbcompress/model.h"
#include "gbcompress/strategy.h"
#include "plugin/door.h"

namespace gbcompress {
namespace {

using test::expect_has;
using test::usage_refusal;

PluginHost& host() {
  static PluginHost& one = *new PluginHost;
  if (one.loaded().empty()) {
    one.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
    for (const char* name : {"linear", "conv", "dtp", "al", "nets"}) one.load(test::builtin(name));
  }
  return one;
}

at::Tensor mean_loss(const at::Tensor& output, const StrategyBatch& batch) {
  return at::cross_entropy_loss(output, batch.targets);
}

/// One step of a strategy on a batch of two samples.
Measurements one_step(Model& model, const std::string& strategy, const std::string& options,
                      const at::Tensor& inputs) {
  BottleneckOptions plain;
  plain.min_elements = 1 << 30;
  GenomicBottleneck bottleneck(model.tensors(), host().registry(), plain);
  StrategySetup setup{model, bottleneck};
  setup.loss = mean_loss;
  setup.example = inputs.slice(0, 0, 1);
  setup.seed = 3;
  setup.batch = inputs.size(0);
  const auto made = make_strategy({strategy, options}, setup, host().registry());
  model.train(true);
  StrategyBatch batch;
  batch.inputs = inputs;
  batch.targets = torch::zeros({inputs.size(0)}, torch::kLong);
  for (std::int64_t i = 0; i < inputs.size(0); ++i) batch.samples.push_back(i);
  return made->step(batch);
}

struct Case {
  std::string arch;
  at::Tensor inputs;
};

/// One model of every architecture.
std::map<std::string, Case> cases() {
  const at::Tensor digits = torch::rand({2, 784}), maps = torch::rand({2, 1, 28, 28}),
                   images = torch::rand({2, 3, 32, 32}),
                   text = torch::randint(1, 30, {2, 9}, torch::kLong);
  return {{"mlp", {"mlp:784-12-11-10", digits}},
          {"lenet-300-100", {"lenet-300-100", digits}},
          {"lenet5", {"lenet5", maps}},
          {"resnet20", {"resnet20", images}},
          {"resnet32", {"resnet32", images}},
          {"resnet56", {"resnet56", images}},
          {"simple-vgg", {"simple-vgg:2", images}},
          {"lenet-dtp", {"lenet-dtp", maps}},
          {"vgg11", {"vgg11", images}},
          {"vgg-al", {"vgg-al:7", images}},
          {"resnet18", {"resnet18", images}},
          {"resnet34", {"resnet34:5:plain", images}},
          {"bilstm-classifier", {"bilstm-classifier:30-8-2-5", text}},
          {"lstm-classifier", {"lstm-classifier:30-8-2-5", text}},
          {"transformer-classifier", {"transformer-classifier:30-8-2-5", text}},
          {"gpt", {"gpt:1-8-2-9:30", text}},
          {"sequential",
           {"sequential:1x28x28/Conv2d(1,2,5),BatchNorm2d(2),Tanh(),MaxPool2d(2)/"
            "Flatten(),Linear(288,10)",
            maps}},
          {"exits", {"exits:mlp:784-12-11-10", digits}}};
}

/// Cells of the table's row of an architecture: stages, al, dtp.
std::map<std::string, std::vector<std::string>> documented() {
  std::ifstream page(GBC_SOURCE_DIR "/docs/explanation/strategies.md");
  std::map<std::string, std::vector<std::string>> rows;
  bool table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| architecture |")) table = true;
    if (line.empty()) table = false;
    if (!table || !line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell.substr(1, cell.size() - 2));
    rows[cells.at(0).substr(1, cells[0].size() - 2)] = {cells.at(1), cells.at(2), cells.at(3)};
  }
  return rows;
}

TEST(StrategyModels, AreThoseOfTheTable) {
  const auto rows = documented();
  std::vector<std::string> names;
  for (const auto& [name, row] : rows) names.push_back(name);
  std::vector<std::string> known = known_architectures(host().registry());
  std::erase(known, "sharing");  // another test's
  EXPECT_EQ(names, known);
  for (const auto& [name, tried] : cases()) {
    const auto row = rows.find(name);
    ASSERT_NE(row, rows.end()) << name;
    for (const auto& [strategy, cell] :
         {std::pair<std::string, std::string>{"al", row->second[1]}, {"dtp", row->second[2]}}) {
      const auto model = build_model(tried.arch, host().registry());
      // That exits are trained by al alone is train()'s to say.
      const bool yes = cell == "yes" || name == "exits";
      if (yes)
        EXPECT_TRUE(std::isfinite(
            one_step(*model, strategy, strategy == "dtp" ? "K=1" : "", tried.inputs).loss))
            << name << " " << strategy;
      else
        expect_has(usage_refusal(name, [&] { one_step(*model, strategy, "", tried.inputs); }),
                   {cell.ends_with("no stages") ? "declares its stages" : "has no inverse"});
    }
  }
}

/// Three stages, of which the first and the second share a layer.
std::unique_ptr<Model> with_shared_layer() {
  Registry& registry = host().registry();
  if (!registry.models().contains("sharing"))
    registry.stage("sharing", [](Registrar& r) {
      r.register_model("sharing", [](const ModelRequest&) {
        struct Net : torch::nn::Module {
          torch::nn::Linear a{register_module("a", torch::nn::Linear(12, 12))};
          torch::nn::Linear c{register_module("c", torch::nn::Linear(12, 5))};
        };
        auto net = std::make_shared<Net>();
        const auto stage = [](const char* name, torch::nn::Sequential layers) {
          return Stage{name, [layers](const at::Tensor& x) mutable { return layers->forward(x); },
                       layers.ptr()};
        };
        const std::vector<Stage> stages = {
            stage("one", torch::nn::Sequential(net->a, torch::nn::ReLU())),
            stage("two", torch::nn::Sequential(net->a, torch::nn::Tanh())),
            stage("three", torch::nn::Sequential(net->c))};
        return BuiltModel{net,
                          [stages](const at::Tensor& inputs) {
                            at::Tensor x = inputs;
                            for (const Stage& each : stages) x = each.forward(x);
                            return x;
                          },
                          {12},
                          stages};
      });
    });
  return build_model("sharing", registry);
}

void copy_weights(Model& from, Model& to) {
  const torch::NoGradGuard no_grad;
  ASSERT_EQ(from.tensors().size(), to.tensors().size());
  for (std::size_t i = 0; i < from.tensors().size(); ++i)
    to.tensors()[i].tensor.copy_(from.tensors()[i].tensor);
}

/// Chains whose layers are spelled out beside the same nets in C++.
TEST(StrategyModels, SpelledOutLayersComputeWhatNamedNetsDo) {
  const std::vector<std::array<std::string, 2>> pairs = {
      {"mlp:784-12-10", "sequential:784/Linear(784,12),ReLU()/Linear(12,10)"},
      {"lenet-dtp",
       "sequential:1x28x28/Conv2d(1,32,5,padding=2),ELU(),MaxPool2d(3,2,1)/Conv2d(32,64,5x5,"
       "padding=2x2),ELU(alpha=1.0),MaxPool2d(kernel_size=3,stride=2,padding=1)/"
       "Flatten(),Linear(3136,512),ELU()/Linear(512,10,bias=True)"},
      {"vgg11",
       "sequential:3x32x32/Conv2d(3,64,3,1,1),BatchNorm2d(64),ReLU(),MaxPool2d(2)/"
       "Conv2d(64,128,3,1,1),BatchNorm2d(128,eps=1e-05,momentum=0.1),ReLU(),MaxPool2d(2)/"
       "Conv2d(128,256,3,1,1),BatchNorm2d(256),ReLU()/Conv2d(256,256,3,1,1),BatchNorm2d(256),"
       "ReLU(),MaxPool2d(2)/Conv2d(256,512,3,1,1),BatchNorm2d(512),ReLU()/"
       "Conv2d(512,512,3,1,1),BatchNorm2d(512),ReLU(),MaxPool2d(2)/Conv2d(512,512,3,1,1),"
       "BatchNorm2d(512),ReLU()/Conv2d(512,512,3,1,1),BatchNorm2d(512),ReLU(),MaxPool2d(2)/"
       "Flatten(),Linear(512,10)"}};
  const std::map<std::string, Case> inputs = cases();
  for (const auto& [named, spelled] : pairs) {
    const auto a = build_model(named, host().registry()),
               b = build_model(spelled, host().registry());
    copy_weights(*a, *b);
    const at::Tensor& x = inputs.at(named.substr(0, named.find(':'))).inputs;
    EXPECT_EQ(a->stages().size(), b->stages().size()) << named;
    EXPECT_TRUE(torch::equal(a->forward(x), b->forward(x))) << named;
    EXPECT_EQ(b->tensors()[0].info.name, "0.weight");
  }
}

TEST(StrategyModels, SpelledOutLayersAreChecked) {
  const std::vector<std::array<std::string, 2>> wrong = {
      {"sequential", "needs the shape of an input and layers"},
      {"sequential:64", "needs the shape of an input and layers"},
      {"sequential:a/Linear(64,10)", "shape of an input must be numbers"},
      {"sequential:0/Linear(64,10)", "shape of an input must be numbers"},
      {"sequential:64/Linear(64,10),Hardtanh()", "layer 1 (Hardtanh) is none of the layers"},
      {"sequential:64/Linear(64", "layer 0 (Linear) has no closing parenthesis"},
      {"sequential:64/Linear(64)", "layer 0 (Linear) needs out_features"},
      {"sequential:64/Linear(64,10,True,3)", "has 4 arguments"},
      {"sequential:64/Linear(64,10,width=3)", "takes no argument width"},
      {"sequential:64/Linear(64,10,in_features=64)", "has in_features twice"},
      {"sequential:64/Linear(64,ten)", "needs an integer from 1"},
      {"sequential:64/Linear(1048576,1048576)", "more than 1073741824 weights"},
      {"sequential:64/Linear(64,16777216)", "needs an integer from 1"},
      {"sequential:64/Linear(64,1048576)/Linear(1048576,1000)",
       "layer 1 (Linear) brings the layers to more than 1073741824 weights"},
      {"sequential:1048576x1048576/Flatten()", "two inputs have more than 268435456 elements"},
      {"sequential:1x8x8/Conv2d(1,2,1,padding=1048576)", "gives more than 268435456 elements"},
      {"sequential:1x8x8/AdaptiveAvgPool2d(1048576)", "gives more than 268435456 elements"},
      {"sequential:1x8x8/MaxPool2d(0x3)", "as kernel_size"},
      {"sequential:1x8x8/MaxPool2d(3x)", "as kernel_size"},
      {"sequential:1x8x8/MaxPool2d(3x9999999)", "as kernel_size"},
      {"sequential:64/Linear(64,10,bias=yes)", "needs True or False as bias"},
      {"sequential:64/Linear(64,10),ELU(alpha=big)", "needs a number as alpha"},
      {"sequential:64/ReLU(True)", "it takes none"},
      {"sequential:64/Linear(64,12)/Linear(13,10)",
       "layer 1 (Linear) cannot take an input of shape "
       "12"},
      {"sequential:1x28x28/Conv2d(1,2,5x5x5),Flatten(),Linear(9,10)", "as kernel_size"},
      {"sequential:2x9x9/Conv2d(2,3,5,groups=2),Flatten(),Linear(9,10)", "groups do not divide"}};
  for (const auto& [arch, words] : wrong)
    expect_has(usage_refusal(arch, [&] { build_model(arch, host().registry()); }), {words});
}

TEST(StrategyModels, NormsWithoutRunningStatisticsFit) {
  EXPECT_NO_THROW(
      build_model("sequential:8/Linear(8,4),BatchNorm1d(4,track_running_stats=False)/Linear(4,2)",
                  host().registry()));
}

TEST(StrategyModels, AParameterOfTwoComponentsIsRefusedByName) {
  const auto model = with_shared_layer();
  const at::Tensor inputs = torch::rand({2, 12});
  expect_has(usage_refusal("al", [&] { one_step(*model, "al", "", inputs); }),
             {"component 1 and component 2 share the parameter a.", "strategy.split"});
  // Within one component both uses have one loss.
  EXPECT_TRUE(std::isfinite(one_step(*model, "al", "split=2", inputs).loss));
}

}  // namespace
}  // namespace gbcompress
