// The order of the verbs, and the size that finish() meets.
#include "gbcompress/error.h"
#include "learning_task.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

class Verbs : public LearningTask {
 protected:
  void SetUp() override {
    options_.mode = WeightMode::kQuantized;
    options_.rate = {.lambda = 0.05, .predictions = 64, .steps = 100};
  }
  static torch::nn::Sequential net() {
    torch::manual_seed(1);
    return torch::nn::Sequential(torch::nn::Linear(20, 30), torch::nn::ReLU(),
                                 torch::nn::Linear(30, 5));
  }
  /// @param words  of the message, which says what to do
  template <typename Body>
  static void refuses(const Body& body, const std::string& words) {
    try {
      body();
      FAIL() << "nothing was refused; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
};

TEST_F(Verbs, FinishTwice) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  bottleneck.finish();
  refuses([&] { bottleneck.finish(); }, "restart()");
}

TEST_F(Verbs, SaveBeforeFinish) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  refuses([&] { bottleneck.save(path_); }, "finish()");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Verbs, StepWithoutBackward) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  refuses([&] { bottleneck.step(); }, "backward()");
  step(model, bottleneck);
  refuses([&] { bottleneck.step(); }, "backward()");
}

TEST_F(Verbs, TrainingAfterFinishNeedsARestart) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  bottleneck.finish();
  refuses([&] { step(model, bottleneck); }, "restart()");
  bottleneck.restart();
  const at::Tensor before = model->parameters()[0].detach().clone();
  for (int i = 0; i < 20; ++i) step(model, bottleneck);
  bottleneck.finish();
  EXPECT_FALSE(at::equal(model->parameters()[0], before));
  EXPECT_GT(bottleneck.save(path_), 0);
}

TEST_F(Verbs, SizesNeedTheStepsOfTheRun) {
  auto model = net();
  options_.rate = {.predictions = 64, .max_bytes = 300};
  refuses([&] { GenomicBottleneck(*model, registry_, options_); }, "rate.steps");
  options_.rate = {.lambda = -1, .predictions = 64};
  refuses([&] { GenomicBottleneck(*model, registry_, options_); }, "lambda");
  options_.rate = {.predictions = -1};
  refuses([&] { GenomicBottleneck(*model, registry_, options_); }, "predictions");
  options_.rate = {.predictions = 1, .steps = 1, .max_bytes = 0};
  refuses([&] { GenomicBottleneck(*model, registry_, options_); }, "max_bytes");
}

TEST_F(Verbs, LambdaNeedsThePredictions) {
  auto model = net();
  options_.rate = {};
  GenomicBottleneck bottleneck(*model, registry_, options_);
  refuses([&] { step(model, bottleneck); }, "rate.predictions");
  options_.rate.lambda = 0;
  GenomicBottleneck free_of_charge(*model, registry_, options_);
  EXPECT_GT(step(model, free_of_charge), 0);
}

TEST_F(Verbs, ModulesThatChangeBetweenVerbs) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  step(model, bottleneck);
  model->push_back(torch::nn::Linear(5, 5));
  refuses([&] { bottleneck.predict_weights(); }, "before the bottleneck is made");
  refuses([&] { bottleneck.finish(); }, "before the bottleneck is made");

  auto other = net();
  GenomicBottleneck of_other(*other, registry_, options_);
  other->to(torch::kFloat64);
  refuses([&] { of_other.predict_weights(); }, "0.weight has changed");

  auto replaced = net();
  GenomicBottleneck of_replaced(*replaced, registry_, options_);
  replaced[0]->as<torch::nn::Linear>()->weight =
      replaced[0]->register_parameter("other", torch::zeros({30, 20}));
  refuses([&] { of_replaced.predict_weights(); }, "before the bottleneck is made");
}

/// A run that is steered ends at most as large as asked and not much smaller, and what was asked
/// holds for its file.
TEST_F(Verbs, FinishMeetsTheSize) {
  auto model = net();
  options_.arch = "mine";
  options_.rate.steps = 400;
  options_.rate.max_bytes = 320;
  GenomicBottleneck bottleneck(*model, registry_, options_);
  for (int i = 0; i < 400; ++i) step(model, bottleneck);
  bottleneck.finish();
  const std::int64_t expected = bottleneck.bytes();
  EXPECT_EQ(bottleneck.save(path_, {.overwrite = true}), expected);
  EXPECT_LE(expected, 320);
  EXPECT_GE(expected, 300);
  EXPECT_EQ(ArtifactReader::open(path_).arch(), "mine");
  const auto stored = expand(ArtifactReader::open(path_), registry_);
  EXPECT_TRUE(at::equal(stored[0].tensor, model->parameters()[0].detach()));
}

/// A run at a fixed lambda that is brought to a size: what fits stays as it was trained, what does
/// not is cut down to it.
TEST_F(Verbs, FinishLeavesWhatFits) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options_);
  for (int i = 0; i < 100; ++i) step(model, bottleneck);
  const std::int64_t trained = bottleneck.bytes();
  const at::Tensor before = model->parameters()[0].detach().clone();
  RateOptions sized = options_.rate;
  sized.max_bytes = 2 * trained;
  bottleneck.restart(sized);
  bottleneck.finish();
  EXPECT_EQ(bottleneck.bytes(), trained);
  bottleneck.predict_weights();
  sized.max_bytes = trained * 9 / 10;
  bottleneck.restart(sized);
  bottleneck.finish();
  EXPECT_LE(bottleneck.bytes(), *sized.max_bytes);
  EXPECT_GE(bottleneck.bytes(), *sized.max_bytes * 9 / 10);
  EXPECT_FALSE(at::equal(before, model->parameters()[0].detach()));
}

/// The stream that decided is the stream that is written: coded anew it is the same.
TEST_F(Verbs, KeptStreamsAreThoseOfTheirIntegers) {
  auto model = net();
  options_.rate.max_bytes = 320;
  options_.row_steps = true;
  GenomicBottleneck bottleneck(*model, registry_, options_);
  for (int i = 0; i < 100; ++i) step(model, bottleneck);
  bottleneck.finish();
  bottleneck.save(path_, {.overwrite = true});
  const ArtifactReader file = ArtifactReader::open(path_);
  ArtifactWriter again(file.arch(), file.settings());
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const ArtifactTensor& t = file.tensors()[i];
    ASSERT_EQ(t.kind, TensorKind::kQuantized);
    again.add_coded(t.name, t.dtype, t.shape, file.coded(i));
  }
  EXPECT_EQ(ArtifactReader::from_bytes(again.encode(), "again").identity(), file.identity());
}

TEST_F(Verbs, DescribeSaysWhatIsStored) {
  LayerRule generated, raw;
  generated.match = "0.weight";
  generated.mode = WeightMode::kGenerated;
  raw.match = "2.bias";
  raw.mode = WeightMode::kExact;
  options_.layers = {generated, raw};
  options_.gnet.hidden = {3};
  options_.gnet.tile_weights = 300;
  auto model = net();
  const GenomicBottleneck mixed(*model, registry_, options_);
  const std::string text = mixed.describe();
  for (const char* line : {"0.weight  30x20  linear", "0.bias    30     quantized",
                           "2.weight  5x30   quantized", "2.bias    5      exact"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(plain_parameters(mixed), 30 + 150 + 5);
}

}  // namespace
}  // namespace gbcompress
