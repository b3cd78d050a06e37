// Whether a model knows more than how often each answer is right.
#include "compress/quality/above_chance.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "support/layer_types.h"

namespace gbcompress {
namespace {

class AboveChanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    types_.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
    model_ = build_model("mlp:2-2", types_);
  }
  /// Answers follow the inputs with that weight, and label 0 with that bias.
  void set(double weight, double bias) {
    const at::NoGradGuard no_grad;
    model_->tensors()[0].tensor.copy_(at::eye(2) * weight);
    model_->tensors()[1].tensor.zero_();
    model_->tensors()[1].tensor[0] = bias;
  }
  Registry types_ = test_registry();
  std::unique_ptr<Model> model_;
  /// 300 samples of label 0 and 100 of label 1; their inputs are one-hot labels.
  static Dataset samples() {
    const at::Tensor labels = at::cat({at::zeros(300, at::kLong), at::ones(100, at::kLong)});
    return {at::one_hot(labels, 2).to(at::kFloat), labels};
  }
  const Dataset data_ = samples();
};

TEST_F(AboveChanceTest, AllIsKeptOrNothing) {
  for (const Metric metric : {Metric::kAccuracy, Metric::kNatsPerChar}) {
    set(10, 0);
    AboveChance above(*model_, data_, metric, 1);
    EXPECT_NEAR(above.kept(*model_), 1, 1e-9);
    EXPECT_LT(above.loss(*model_), 1e-3);
    set(0, std::log(3.0));  // the frequencies of the labels
    EXPECT_NEAR(above.kept(*model_), 0, 1e-3);
    EXPECT_NEAR(above.loss(*model_), -0.75 * std::log(0.75) - 0.25 * std::log(0.25), 1e-3);
    set(-10, 0);  // worse than chance
    EXPECT_LT(above.kept(*model_), 0);
  }
}

TEST_F(AboveChanceTest, ANewModelIsComparedWithTheBestOneSeen) {
  set(0, 1);
  AboveChance above(*model_, data_, Metric::kNatsPerChar, 1);
  EXPECT_EQ(above.kept(*model_), 1) << "nothing to lose yet";
  set(10, 0);
  EXPECT_NEAR(above.kept(*model_), 1, 1e-9);
  set(0, std::log(3.0));
  EXPECT_NEAR(above.kept(*model_), 0, 1e-3);
}

}  // namespace
}  // namespace gbcompress
