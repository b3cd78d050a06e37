// Every generator and every code inside the bottleneck: it learns, it saves, it draws, it resumes.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bottleneck/internals.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/train.h"
#include "support/files.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

struct Choice {
  std::string name;
  GNetOptions options;

  friend void PrintTo(const Choice& c, std::ostream* out) { *out << c.name; }
};

std::vector<Choice> choices() {
  const auto gnet = [](Generator generator, const char* rows, const char* cols) {
    GNetOptions o;
    o.tile_weights = 300;
    o.hidden = {6};
    o.generator = generator;
    o.rank = 3;
    if (*rows) o.row_code = parse_code(rows);
    if (*cols) o.col_code = parse_code(cols);
    return o;
  };
  return {
      {"gnet", gnet(Generator::kGNet, "", "")},
      {"fourier", gnet(Generator::kGNet, "fourier:3", "fourier:2")},
      {"pixel", gnet(Generator::kGNet, "", "pixel:4x6:3")},
      {"latent", gnet(Generator::kGNet, "latent:2", "latent:3")},
      {"stochastic", gnet(Generator::kStochastic, "", "")},
      {"low_rank", gnet(Generator::kLowRank, "", "")},
      {"xox", gnet(Generator::kXox, "", "")},
  };
}

class GeneratorTest : public ::testing::TestWithParam<Choice> {
 protected:
  /// 40 x 24 weights that change smoothly, a batch norm, and a layer that stays plain.
  static torch::nn::Sequential net() {
    torch::manual_seed(1);
    torch::nn::Sequential result(torch::nn::Linear(24, 40), torch::nn::BatchNorm1d(40),
                                 torch::nn::ReLU(), torch::nn::Linear(40, 3));
    const at::NoGradGuard no_grad;
    const auto rows = torch::linspace(0, 6, 40).sin(), cols = torch::linspace(-1, 2, 24).cos();
    result[0]->as<torch::nn::Linear>()->weight.copy_(rows.outer(cols) +
                                                     0.1 * torch::randn({40, 24}));
    return result;
  }
  static BottleneckOptions options() {
    BottleneckOptions o;
    o.min_elements = 500;
    o.gnet = GetParam().options;
    o.gnet_optimizer.lr = 0.02;
    o.gnet_optimizer.weight_decay = 0;
    o.seed = 5;
    o.coding = Coding::kF32;
    return o;
  }
  static void train_step(torch::nn::Sequential& net, GenomicBottleneck& bottleneck, int step) {
    torch::manual_seed(100 + step);
    const auto x = torch::randn({16, 24}), y = torch::randint(3, {16});
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    torch::nn::functional::cross_entropy(net->forward(x), y).backward();
    bottleneck.backward();
    bottleneck.step(1.0 / (1 + step));
  }
  Registry registry_ = test_registry();
  testing::TempDir folder_;
  const std::filesystem::path path_ = folder_ / "net.gbz";
};

TEST_P(GeneratorTest, FitsWeightsThatHaveStructure) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options());
  ASSERT_EQ(bottleneck.layers().size(), 1u);
  EXPECT_EQ(bottleneck.layers()[0].spec.generator, GetParam().options.generator);
  const double before = fit_weights(bottleneck, 0, Schedule::kConstant, {});
  const double after = fit_weights(bottleneck, 300, Schedule::kOneCycle, {});
  EXPECT_LT(after, 0.75 * before);
}

TEST_P(GeneratorTest, ExpandsToWhatItPredictsWithoutNoise) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options());
  fit_weights(bottleneck, 20, Schedule::kConstant, {});
  bottleneck.train(false);
  bottleneck.predict_weights();
  const auto trained = model[0]->as<torch::nn::Linear>()->weight.detach().clone();
  bottleneck.finish();
  bottleneck.save(path_);
  const auto live = model[0]->as<torch::nn::Linear>()->weight.detach().clone();
  const auto tensors = expand(ArtifactReader::open(path_), registry_);
  ASSERT_EQ(tensors[0].info.name, "0.weight");
  EXPECT_TRUE(at::equal(tensors[0].tensor, live));
  // The fused kernel rounds otherwise than the exact decoder.
  EXPECT_LT((trained - live).abs().max().item<double>(), 2e-6 * live.abs().max().item<double>());
  EXPECT_GT(live.abs().max().item<double>(), 0.1);
}

TEST_P(GeneratorTest, ResumesWithTheSameBits) {
  auto first = net(), second = net();
  GenomicBottleneck one(*first, registry_, options());
  for (int step = 0; step < 3; ++step) train_step(first, one, step);
  GenomicBottleneck two(*second, registry_, options());
  two.restore_training_state(one.training_state());
  for (int step = 3; step < 6; ++step) {
    train_step(first, one, step);
    train_step(second, two, step);
  }
  const auto a = one.training_state(), b = two.training_state();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
  }
}

TEST_P(GeneratorTest, RefusesAStateThatDoesNotFit) {
  auto model = net();
  GenomicBottleneck bottleneck(*model, registry_, options());
  const auto before = bottleneck.training_state();
  const auto refuses = [&](std::vector<StateEntry> state) {
    for (auto& entry : state)
      if (entry.name.ends_with("#theta")) entry.value = entry.value + 1;
    try {
      bottleneck.restore_training_state(state);
    } catch (const Error& error) {
      // Nothing has been changed, not even what came before the entry that does not fit.
      const auto now = bottleneck.training_state();
      for (std::size_t i = 0; i < now.size(); ++i)
        EXPECT_TRUE(at::equal(now[i].value, before[i].value)) << now[i].name;
      return error.code() == Errc::kShapeMismatch;
    }
    return false;
  };
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto state = before;
    state.erase(state.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_TRUE(refuses(state)) << "without " << before[i].name;
    state = before;
    state[i].value = state[i].value.unsqueeze(0);
    EXPECT_TRUE(refuses(state)) << "another shape of " << before[i].name;
    state = before;
    state[i].value = state[i].value.to(torch::kShort);
    EXPECT_TRUE(refuses(state)) << "another type of " << before[i].name;
  }
  auto more = before;
  more.push_back({"stranger", torch::zeros({1})});
  EXPECT_TRUE(refuses(more));
}

INSTANTIATE_TEST_SUITE_P(All, GeneratorTest, ::testing::ValuesIn(choices()),
                         [](const auto& info) { return info.param.name; });

class StochasticTest : public GeneratorTest {};

TEST_P(StochasticTest, DrawsAnewEachStepAndTheSameForAnyThreads) {
  auto model = net();
  const auto weights = [&](GenomicBottleneck& bottleneck) {
    bottleneck.predict_weights();
    return model[0]->as<torch::nn::Linear>()->weight.detach().clone();
  };
  GenomicBottleneck bottleneck(*model, registry_, options());
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto once = weights(bottleneck);
  at::set_num_threads(3);
  const auto again = weights(bottleneck);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(once, again)) << "the same step draws the same numbers";
  bottleneck.train(false);
  const auto mean = weights(bottleneck);
  bottleneck.train(true);
  // One step without a gradient and without decay leaves the g-nets alone and draws anew.
  bottleneck.zero_grad();
  bottleneck.backward();
  bottleneck.step(0);
  const auto next = weights(bottleneck);
  EXPECT_FALSE(at::equal(once, next));
  // The deviation begins at 0.02 times the output scale.
  const double scale = bottleneck.layers()[0].spec.output_scale;
  for (const auto& drawn : {once, next})
    EXPECT_NEAR(((drawn - mean) / scale).std().item<double>(), 0.02, 0.002);
  const auto a = (once - mean).flatten(), b = (next - mean).flatten();
  EXPECT_LT(std::abs((a * b).mean().item<double>() / (a.std() * b.std()).item<double>()), 0.15);
}

INSTANTIATE_TEST_SUITE_P(All, StochasticTest, ::testing::Values(choices()[4]),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gbcompress
