// What a bottleneck loads, it computes with: the bits that expand() gives, for every kind of
// tensor.
#include <functional>

#include "bottleneck/internals.h"
#include "gbcompress/error.h"
#include "learning_task.h"

namespace gbcompress {
namespace {

struct Kind {
  const char* name;
  std::function<void(BottleneckOptions&)> choose;
  bool trained = true;
  Quantizer quantizer = Quantizer::kNearest;  ///< of what is not trained
  at::ScalarType type = at::kFloat;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class LoadExact : public ::testing::TestWithParam<Kind> {
 protected:
  static torch::nn::Sequential net(unsigned seed) {
    torch::manual_seed(seed);
    torch::nn::Sequential result(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3)),
                                 torch::nn::BatchNorm2d(16), torch::nn::ReLU(),
                                 torch::nn::Flatten(), torch::nn::Linear(64, 40));
    result->to(GetParam().type);
    return result;
  }
  static BottleneckOptions options() {
    BottleneckOptions o;
    o.min_elements = 1;
    o.gnet.tile_weights = 300;
    o.gnet.hidden = {3};
    o.gnet.rank = 2;
    o.rate = {.lambda = 0.05, .predictions = 64, .steps = 30};
    GetParam().choose(o);
    return o;
  }
  void step(torch::nn::Sequential& model, GenomicBottleneck& bottleneck) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const at::Tensor x = torch::randn({8, 3, 4, 4}).to(GetParam().type);
    torch::nn::functional::cross_entropy(model->forward(x), torch::randint(40, {8})).backward();
    bottleneck.backward();
    bottleneck.step();
  }
  /// Trains a little, or chooses integers as nobody trained, and saves.
  void write() {
    torch::nn::Sequential model = net(1);
    GenomicBottleneck bottleneck(*model, registry_, options());
    if (GetParam().trained)
      for (int i = 0; i < 30; ++i) step(model, bottleneck);
    else
      BottleneckIntegers::quantize(bottleneck, 0.02, 0, GetParam().quantizer);
    bottleneck.finish();
    bottleneck.save(path_);
    expect_expanded(model);
  }
  void expect_expanded(torch::nn::Sequential& model) {
    const auto stored = expand(ArtifactReader::open(path_), registry_);
    const auto live = named_parameters(*model);
    ASSERT_EQ(stored.size(), live.size());
    for (std::size_t i = 0; i < live.size(); ++i)
      EXPECT_TRUE(at::equal(live[i].tensor, stored[i].tensor)) << live[i].info.name;
  }

  Registry registry_ = test_registry();
  testing::TempDir folder_;
  const std::filesystem::path path_ = folder_ / "net.gbz", again_ = folder_ / "again.gbz";
};

TEST_P(LoadExact, PredictsWhatTheFileExpandsTo) {
  write();
  // Another model of the same kind: other values, other deviations, other steps.
  torch::nn::Sequential model = net(7);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.load(path_);
  expect_expanded(model);
  bottleneck.predict_weights();
  expect_expanded(model);
}

TEST_P(LoadExact, IsSavedAgainAsItWas) {
  write();
  torch::nn::Sequential model = net(7);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.load(path_);
  bottleneck.finish();
  bottleneck.save(again_);
  expect_expanded(model);
  EXPECT_EQ(ArtifactReader::open(again_).identity(), ArtifactReader::open(path_).identity());
}

TEST_P(LoadExact, TrainingGoesOnFromThere) {
  write();
  torch::nn::Sequential model = net(7);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.load(path_);
  const auto weights = [&] { return torch::nn::utils::parameters_to_vector(model->parameters()); };
  const at::Tensor before = weights().detach();
  for (int i = 0; i < 40; ++i) step(model, bottleneck);
  bottleneck.finish();
  const at::Tensor after = weights().detach();
  EXPECT_FALSE(at::equal(after, before));
  EXPECT_LT((after - before).square().mean().item<double>(),
            0.2 * before.square().mean().item<double>())
      << "it began somewhere else";
}

std::vector<Kind> kinds() {
  const auto coded_as = [](Coding coding) {
    return [coding](BottleneckOptions& o) { o.coding = coding; };
  };
  const auto quantized = [](BottleneckOptions& o) { o.mode = WeightMode::kQuantized; };
  const auto rows = [](BottleneckOptions& o) {
    o.mode = WeightMode::kQuantized;
    o.row_steps = true;
  };
  const auto stochastic = [](BottleneckOptions& o) { o.gnet.generator = Generator::kStochastic; };
  return {{"raw", [](BottleneckOptions& o) { o.mode = WeightMode::kExact; }},
          {"fp32", coded_as(Coding::kF32)},
          {"fp16", coded_as(Coding::kF16)},
          {"int8", coded_as(Coding::kI8)},
          {"coded", coded_as(Coding::kCoded)},
          {"stochastic", stochastic},
          {"quantized", quantized},
          {"quantized_rows", rows},
          {"quantized_bfloat16", quantized, true, Quantizer::kNearest, at::kBFloat16},
          {"quantized_untrained", quantized, false},
          {"quantized_trellis", quantized, false, Quantizer::kTrellis}};
}

INSTANTIATE_TEST_SUITE_P(Kinds, LoadExact, ::testing::ValuesIn(kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

/// Integers of a model that had row steps, in one that has not.
TEST(LoadExactAcross, RowStepsWhereTensorsHaveOneStep) {
  const Registry registry = test_registry();
  testing::TempDir folder;
  BottleneckOptions options;
  options.mode = WeightMode::kQuantized;
  options.row_steps = true;
  options.rate.lambda = 0;
  torch::manual_seed(2);
  torch::nn::Linear from(30, 20), to(30, 20);
  {
    const at::NoGradGuard no_grad;
    from->weight.mul_(torch::logspace(-2, 1, 20, 10).view({20, 1}));
  }
  GenomicBottleneck first(*from, registry, options);
  for (int i = 0; i < 60; ++i) {  // rows of many sizes find many steps
    first.zero_grad();
    first.predict_weights();
    from->weight.mutable_grad() = from->weight.detach() * 1e-3;
    first.backward();
    first.step();
  }
  first.finish();
  first.save(folder / "rows.gbz");
  options.row_steps = false;
  GenomicBottleneck second(*to, registry, options);
  second.load(folder / "rows.gbz");
  const ArtifactReader file = ArtifactReader::open(folder / "rows.gbz");
  EXPECT_TRUE(file.tensors()[0].row_steps);
  EXPECT_TRUE(at::equal(to->weight, expand(file, registry)[0].tensor));
}

}  // namespace
}  // namespace gbcompress
