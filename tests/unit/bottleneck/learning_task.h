#pragma once
/// A small task, and one training step on it, for tests of parameters that are stored as integers.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "gbcompress/bottleneck.h"
#include "support/files.h"
#include "support/layer_types.h"

namespace gbcompress {

class LearningTask : public ::testing::Test {
 protected:
  LearningTask() {
    torch::manual_seed(3);
    inputs_ = torch::randn({64, 20});
    targets_ = torch::randint(0, 5, {64}, torch::kLong);
  }

  /// @return the loss
  double step(torch::nn::Sequential& net, GenomicBottleneck& bottleneck) {
    bottleneck.zero_grad();
    bottleneck.predict_weights();
    const at::Tensor loss = torch::nn::functional::cross_entropy(net->forward(inputs_), targets_);
    loss.backward();
    bottleneck.backward();
    bottleneck.step();
    return loss.item<double>();
  }

  /// Two bottlenecks of one kind: what the second takes over from the first's middle goes on with
  /// the same bits.
  void expect_the_same_bits(torch::nn::Sequential first, torch::nn::Sequential second) {
    // Lambda rises, and the entropy model is refreshed before each step.
    options_.rate = {.lambda = 0.01, .predictions = 64, .steps = 10};
    GenomicBottleneck a(*first, registry_, options_), b(*second, registry_, options_);
    for (int i = 0; i < 5; ++i) step(first, a);
    const auto state = a.training_state();
    for (int i = 0; i < 5; ++i) step(first, a);
    b.restore_training_state(state);
    for (int i = 0; i < 5; ++i) step(second, b);
    a.predict_weights();
    b.predict_weights();
    for (const auto& item : first->named_parameters())
      EXPECT_TRUE(at::equal(item.value(), second->named_parameters()[item.key()])) << item.key();
  }

  Registry registry_ = test_registry();
  BottleneckOptions options_;
  at::Tensor inputs_, targets_;
  testing::TempDir folder_;
  const std::filesystem::path path_ = folder_ / "net.gbz";
};

}  // namespace gbcompress
