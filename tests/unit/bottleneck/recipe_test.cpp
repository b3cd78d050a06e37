// BottleneckOptions::target_ratio: what the recipe chooses, what it leaves, and the file it makes.
#include <cmath>

#include "gbcompress/error.h"
#include "gbcompress/recipe.h"
#include "learning_task.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

class Recipe : public LearningTask {
 protected:
  static torch::nn::Sequential net() {
    torch::manual_seed(5);
    return torch::nn::Sequential(torch::nn::Linear(20, 96), torch::nn::ReLU(),
                                 torch::nn::Linear(96, 64), torch::nn::ReLU(),
                                 torch::nn::Linear(64, 5));
  }
  Errc refusal() {
    torch::nn::Sequential one = net();
    return code_of([&] { GenomicBottleneck(*one, registry_, options_); });
  }
};

TEST_F(Recipe, MakesAFileOfTheTargetSize) {
  for (const double ratio : {3.0, 7.0, 15.0}) {
    SCOPED_TRACE(ratio);
    options_.target_ratio = ratio;
    torch::nn::Sequential model = net();
    GenomicBottleneck bottleneck(*model, registry_, options_);
    step(model, bottleneck);
    bottleneck.finish();
    const std::int64_t bytes = bottleneck.save(path_, {.overwrite = true});
    const double elements = 20 * 96 + 96 + 96 * 64 + 64 + 64 * 5 + 5;
    EXPECT_LE(static_cast<double>(bytes), 4 * elements / ratio + 16);
    EXPECT_GT(static_cast<double>(bytes), 4 * elements / ratio * 0.6);
  }
}

TEST_F(Recipe, RoundsBiasesAsTheFileHoldsThem) {
  options_.target_ratio = 7;
  torch::nn::Sequential model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  const at::Tensor bias = model->named_parameters()["0.bias"];
  const at::Tensor exact = bias.detach().clone();
  bottleneck.finish();
  const at::Tensor rounded = bias.detach().clone();
  EXPECT_FALSE(at::equal(exact, rounded));
  EXPECT_LE(((exact - rounded).abs() / exact.abs()).max().item<double>(), 1.0 / 32 + 1e-6);
  bottleneck.save(path_);
  const ArtifactReader file = ArtifactReader::open(path_);
  const std::vector<NamedParameter> expanded = expand(file, registry_);
  for (const NamedParameter& p : expanded)
    EXPECT_TRUE(at::equal(p.tensor, model->named_parameters()[p.info.name])) << p.info.name;
  EXPECT_EQ(file.tensors()[1].kind, TensorKind::kQuantized);

  torch::nn::Sequential second = net();
  GenomicBottleneck loaded(*second, registry_, options_);
  loaded.load(path_);
  EXPECT_TRUE(at::equal(second->named_parameters()["0.bias"], rounded));
}

TEST_F(Recipe, LeavesOtherFilesAsTheyAre) {
  for (const auto& ratio : {std::optional<double>(), std::optional<double>(3)}) {
    options_.target_ratio = ratio;
    torch::nn::Sequential model = net();
    GenomicBottleneck bottleneck(*model, registry_, options_);
    step(model, bottleneck);
    const at::Tensor bias = model->named_parameters()["0.bias"].detach().clone();
    bottleneck.finish();
    EXPECT_TRUE(at::equal(bias, model->named_parameters()["0.bias"]));
  }
}

TEST_F(Recipe, SchedulesTheLearningRate) {
  const std::int64_t steps = 12;
  torch::nn::Sequential first = net(), second = net();
  options_.gnet_optimizer.lr = 0.01;
  GenomicBottleneck by_hand(*first, registry_, options_);
  options_.schedule = Schedule::kOneCycle;
  options_.steps = steps;
  GenomicBottleneck scheduled(*second, registry_, options_);
  for (std::int64_t i = 0; i < steps + 2; ++i) {
    step(second, scheduled);
    by_hand.zero_grad();
    by_hand.predict_weights();
    torch::nn::functional::cross_entropy(first->forward(inputs_), targets_).backward();
    by_hand.backward();
    by_hand.step(schedule_factor(Schedule::kOneCycle, std::min(i, steps - 1), steps));
  }
  by_hand.predict_weights();
  scheduled.predict_weights();
  for (const auto& item : first->named_parameters())
    EXPECT_TRUE(at::equal(item.value(), second->named_parameters()[item.key()])) << item.key();
}

TEST_F(Recipe, KeepsWhatTheUserChose) {
  options_.target_ratio = 5;
  const auto made = [&] {
    torch::nn::Sequential model = net();
    GenomicBottleneck bottleneck(*model, registry_, options_);
    for (const GeneratedLayer& layer : bottleneck.layers())
      if (layer.name == "2.weight") return layer.spec;
    return GNetSpec();
  };
  EXPECT_EQ(made().generator, Generator::kLowRank);
  options_.gnet.hidden = {9};
  EXPECT_EQ(made().generator, Generator::kGNet);
  EXPECT_EQ(made().hidden, std::vector<std::int64_t>{9});
  options_.gnet.hidden = {32};
  options_.layers = {{.match = "2.weight", .hidden = std::vector<std::int64_t>{7}}};
  EXPECT_EQ(made().hidden, std::vector<std::int64_t>{7});
  options_.layers = {{.match = "2.weight", .tile_weights = 600}};
  EXPECT_EQ(made().generator, Generator::kLowRank);
  EXPECT_EQ(made().rank, 8);
  EXPECT_GT(made().grid().tiles(), 1);
}

TEST_F(Recipe, RefusesImpossibleRatios) {
  for (const double ratio : {1.0, 0.5, -3.0, std::nan(""), HUGE_VAL}) {
    options_.target_ratio = ratio;
    EXPECT_EQ(refusal(), Errc::kUsage) << ratio;
  }
  options_.target_ratio = 5;
  options_.gnet.ratio = 5;
  EXPECT_EQ(refusal(), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
