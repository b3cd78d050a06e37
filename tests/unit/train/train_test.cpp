#include "gbcompress/train.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "gbcompress/error.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

class TrainTest : public ::testing::Test {
 protected:
  Registry registry() {
    Registry r = test_registry();
    r.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
    return r;
  }
  BottleneckOptions options() {
    BottleneckOptions o;
    o.gnet.tile_weights = 300;
    o.gnet.hidden = {8};
    o.gnet_optimizer.lr = 1e-2;
    return o;
  }
};

TEST_F(TrainTest, FittingWeightsMovesTheErrorFromOneTowardsZero) {
  const Registry types = registry();
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-32-10", types);
  GenomicBottleneck bottleneck(model->tensors(), types, options());
  ASSERT_GT(bottleneck.layers().size(), 0u);
  const double before = fit_weights(bottleneck, 0, Schedule::kConstant);
  const double after = fit_weights(bottleneck, 200, Schedule::kConstant);
  EXPECT_LT(after, before - 0.05);
  // The same number, worked out from the tensors.
  double sum = 0, count = 0;
  for (const auto& layer : bottleneck.layers()) {
    sum += ((layer.weights - layer.original).square().sum() / layer.original.var()).item<double>();
    count += static_cast<double>(layer.original.numel());
  }
  EXPECT_NEAR(after, sum / count, 1e-5);
}

TEST_F(TrainTest, TaskTrainingLearnsDigits) {
  const Registry types = registry();
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-64-10", types);
  const Data data = open_data("digits");
  GenomicBottleneck bottleneck(model->tensors(), types, options());
  TrainOptions o;
  o.epochs = 40;
  o.batch = 32;
  const double before = evaluate(*model, data.test, data.metric);
  std::int64_t steps = 0;
  train(*model, bottleneck, data.train, o, nullptr, [&](const Progress& p) {
    EXPECT_EQ(p.phase, "train");
    EXPECT_EQ(p.done, ++steps);
    EXPECT_EQ(p.total, 40 * ((data.train.size() + 31) / 32));
  });
  EXPECT_EQ(steps, 40 * ((data.train.size() + 31) / 32));
  EXPECT_LT(before, 30);
  EXPECT_GT(evaluate(*model, data.test, data.metric), 80);
}

TEST_F(TrainTest, MeasuresWhetherLabelsAreAmongTheFiveHighest) {
  const Registry types = registry();
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-32-10", types);
  const Data data = open_data("digits");
  const Quality quality = measure(*model, data.test, data.metric);
  EXPECT_DOUBLE_EQ(quality.metric, evaluate(*model, data.test, data.metric));
  // Counted: fewer than five scores are higher than the label's.
  const Batch all = data.test.everything();
  const at::Tensor scores = model->forward(all.inputs).detach();
  const at::Tensor own = scores.gather(1, all.targets.unsqueeze(1));
  const at::Tensor hits = scores.gt(own).sum(1).lt(5);
  ASSERT_TRUE(quality.top5);
  EXPECT_NEAR(*quality.top5, 100 * hits.to(at::kDouble).mean().item<double>(), 1e-9);
  EXPECT_GT(*quality.top5, quality.metric);
  EXPECT_LT(*quality.top5, 100);
  EXPECT_FALSE(measure(*model, data.test, Metric::kNatsPerChar).top5) << "it belongs to accuracy";

  const at::Tensor few =
      in_top5(torch::tensor({{1.f, 2.f, 3.f}}), torch::tensor({std::int64_t{0}}));
  EXPECT_TRUE(few.item<bool>()) << "three classes are all among the best five";
  const at::Tensor seven = torch::arange(14, at::kFloat).view({2, 7});
  EXPECT_TRUE(in_top5(seven, torch::tensor({std::int64_t{2}, std::int64_t{1}}))
                  .equal(torch::tensor({true, false})));
}

TEST_F(TrainTest, SameSeedSameBitsAndAnotherSeedOthers) {
  const Registry types = registry();
  const Data data = open_data("digits");
  at::Tensor results[3];
  for (int run = 0; run < 3; ++run) {
    torch::manual_seed(1);
    const auto model = build_model("mlp:64-32-10", types);
    GenomicBottleneck bottleneck(model->tensors(), types, options());
    TrainOptions o;
    o.epochs = 1;
    o.seed = run == 2 ? 1 : 0;
    train(*model, bottleneck, data.train, o);
    results[run] = bottleneck.layers()[0].theta.clone();
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_FALSE(at::equal(results[0], results[2]));
}

TEST_F(TrainTest, EvaluateCountsWhatIsRight) {
  const Registry types = registry();
  const auto model = build_model("mlp:3-3", types);
  {
    const torch::NoGradGuard no_grad;
    model->tensors()[0].tensor.copy_(torch::eye(3));
    model->tensors()[1].tensor.zero_();
  }
  const auto inputs =
      torch::tensor({{1.f, 0.f, 0.f}, {0.f, 1.f, 0.f}, {0.f, 0.f, 1.f}, {1.f, 0.f, 0.f}});
  const auto targets = torch::tensor({0, 1, 2, 1}, torch::kLong);
  EXPECT_DOUBLE_EQ(evaluate(*model, Dataset(inputs, targets), Metric::kAccuracy), 75);
  // Three times -log(e / (e + 2)), once -log(1 / (e + 2)).
  const double e = std::exp(1.0);
  EXPECT_NEAR(evaluate(*model, Dataset(inputs, targets), Metric::kNatsPerChar),
              (3 * std::log((e + 2) / e) + std::log(e + 2)) / 4, 1e-6);
  EXPECT_THROW(evaluate(*model, Dataset(inputs, targets + 5), Metric::kAccuracy), Error);
}

TEST_F(TrainTest, StopsOnRequestBetweenSteps) {
  const Registry types = registry();
  torch::manual_seed(1);
  const auto model = build_model("mlp:64-32-10", types);
  const Data data = open_data("digits");
  GenomicBottleneck bottleneck(model->tensors(), types, options());
  int steps = 0;
  try {
    train(*model, bottleneck, data.train, {}, nullptr, [&](const Progress&) {
      if (++steps == 3) request_interrupt(2);
    });
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kInterrupted);
  }
  EXPECT_EQ(steps, 3);
  request_interrupt(0);
}

}  // namespace
}  // namespace gbcompress
