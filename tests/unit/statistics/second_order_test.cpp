// Second-order statistics, and the inputs of layers seen from outside.
#include "statistics/second_order.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "bottleneck/internals.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/train.h"
#include "statistics/calibrate.h"
#include "statistics/layer_inputs.h"
#include "statistics/refit.h"
#include "support/all_types.h"
#include "support/code_of.h"
#include "support/named_weight.h"
#include "support/tensor_importance.h"
#include "train/calibrated.h"

namespace gbcompress {
namespace {

using testing::named_weight;

TEST(LayerInputs, RowsTimesTheWeightAreWhatTheLayerGives) {
  torch::manual_seed(1);
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({3, 5, 8}), picture = at::randn({2, 6, 9, 7}),
                   sound = at::randn({2, 4, 20});
  const std::vector<NamedParameter> weights = {
      named_weight("linear", at::randn({4, 8})), named_weight("conv", at::randn({10, 6, 3, 2})),
      named_weight("grouped", at::randn({4, 2, 3})), named_weight("table", at::randn({10, 8})),
      named_weight("transposed", at::randn({6, 3, 3, 3}))};
  std::vector<std::pair<std::size_t, at::Tensor>> seen;
  std::vector<at::Tensor> outputs;
  {
    const LayerInputs inputs(weights, [&](const LayerCall& call) {
      seen.emplace_back(call.tensor, call.rows(1 << 20));
    });
    outputs.push_back(at::linear(x, weights[0].tensor, at::zeros({4})));
    outputs.push_back(at::conv2d(picture, weights[1].tensor, {}, {2, 1}, {1, 0}, {1, 2}));
    outputs.push_back(at::conv1d(sound, weights[2].tensor, {}, 2, 1, 1, 2));
    outputs.push_back(at::matmul(x, weights[0].tensor.t()));
    at::embedding(weights[3].tensor, at::zeros({4}, at::kLong));
    at::conv_transpose2d(picture, weights[4].tensor);
    at::linear(x, weights[0].tensor * 2);  // made on the fly
    inputs.check();
  }
  at::linear(x, weights[0].tensor);  // nobody looks any more
  ASSERT_EQ(seen.size(), 4u);
  const std::vector<std::size_t> order = {0, 1, 2, 0};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const auto& [tensor, rows] = seen[i];
    EXPECT_EQ(tensor, order[i]);
    if (tensor == 2) continue;  // rows of both groups, told apart below
    const at::Tensor w = weights[tensor].tensor.flatten(1);
    at::Tensor wanted = outputs[i];
    if (tensor == 1) wanted = wanted.movedim(1, -1);
    EXPECT_TRUE(at::allclose(rows.mm(w.t()), wanted.reshape({-1, w.size(0)}), 1e-4, 1e-4)) << i;
  }
  // [batch, groups, positions, n]: each group's rows meet its own half of the weight.
  const at::Tensor rows = seen[2].second.view({2, 2, -1, 6});
  const at::Tensor halves = weights[2].tensor.view({2, 2, 6});
  const at::Tensor made = at::einsum("bgpn,gon->bgop", {rows, halves}).reshape({2, 4, -1});
  EXPECT_TRUE(at::allclose(made, outputs[2], 1e-4, 1e-4));
}

TEST(LayerInputs, TakesFewerRowsEvenlySpread) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedParameter> weights = {named_weight("conv", at::ones({1, 1, 1, 1}))};
  at::Tensor rows;
  const LayerInputs inputs(weights, [&](const LayerCall& call) { rows = call.rows(20); });
  at::conv2d(at::arange(64, at::kFloat).view({1, 1, 8, 8}), weights[0].tensor);
  inputs.check();
  EXPECT_LE(rows.size(0), 24);
  EXPECT_GE(rows.size(0), 10);
  // Not always the same columns of the picture.
  EXPECT_GT(std::get<0>(at::_unique(rows.remainder(8))).numel(), 4);
}

TEST(LayerInputs, ThrowsWhatTheSinkThrew) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedParameter> weights = {named_weight("linear", at::randn({4, 8}))};
  const LayerInputs inputs(weights, [](const LayerCall&) { throw Error(Errc::kLimit, "no"); });
  at::linear(at::randn({1, 8}), weights[0].tensor);
  EXPECT_EQ(code_of([&] { inputs.check(); }), Errc::kLimit);
}

class Statistics : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    model_ = build_model("mlp:64-20-10", types_);
    samples_.emplace(calibration_samples(data_.train, 200, 0));
  }
  Registry types_ = all_types();
  Data data_ = open_data("digits");
  std::unique_ptr<Model> model_;
  std::optional<Dataset> samples_;
};

TEST_F(Statistics, AreMomentsOfInputsAndGradients) {
  const SecondOrderStatistics statistics = second_order_statistics(*model_, *samples_, 0);
  const std::vector<double> importance = tensor_importance(*model_, *samples_, 0);
  ASSERT_EQ(statistics.groups.size(), 2u);
  const at::Tensor x = samples_->range(0, 200).inputs.flatten(1).to(at::kDouble);
  const UpperFactor inputs = *factor_of(x.t().mm(x), kColumnDamp);
  for (std::size_t i = 0; i < importance.size(); ++i) {
    const auto& [weight, moments, seen] = statistics.tensors[i];
    EXPECT_NEAR(weight, importance[i], 1e-5 * importance[i]);
    const bool matrix = model_->tensors()[i].info.shape.size() == 2;
    EXPECT_EQ(seen, matrix);
    EXPECT_EQ(moments.columns != nullptr, matrix);
    EXPECT_EQ(moments.rows != nullptr, matrix);
  }
  const std::size_t first = statistics.groups[0].front();
  for (std::int64_t j = 0; j < 64; ++j)
    EXPECT_NEAR(statistics.tensors[first].moments.columns->diagonal(j) / inputs.diagonal(j), 1,
                1e-4);
}

/// Gradients of four samples have rank 4 or less: their moments are taken from the inputs of those.
TEST_F(Statistics, OfGradientsOfFewRowsAreThoseOfTheWhole) {
  const auto model = build_model("mlp:64-48-40-10", types_);
  const SecondOrderStatistics statistics = second_order_statistics(*model, *samples_, 0);
  std::vector<at::Tensor> sums(model->tensors().size());
  for_drawn_gradients(*model, *samples_, 0, samples_->size(), 0, [&] {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor gradient = model->tensors()[i].tensor.grad().to(at::kDouble);
      if (gradient.dim() != 2) continue;
      const at::Tensor product = gradient.mm(gradient.t());
      sums[i] = sums[i].defined() ? sums[i] + product : product;
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    const UpperFactor whole = *factor_of(sums[i], kRowDamp);
    const UpperFactor& found = *statistics.tensors[i].moments.rows;
    ASSERT_EQ(found.size(), whole.size());
    for (std::int64_t j = 0; j < whole.size(); ++j)
      EXPECT_NEAR(found.diagonal(j) / whole.diagonal(j), 1, 1e-3) << i << ", " << j;
  }
}

void expect_same(const UpperFactor* one, const UpperFactor* other) {
  ASSERT_EQ(one == nullptr, other == nullptr);
  if (!one) return;
  ASSERT_EQ(one->size(), other->size());
  for (std::int64_t i = 0; i < one->size(); ++i) {
    EXPECT_EQ(one->diagonal(i), other->diagonal(i));
    for (std::int64_t j = i + 1; j < one->size(); ++j)
      ASSERT_EQ(one->row(i)[j], other->row(i)[j]) << i << ", " << j;
  }
}

TEST_F(Statistics, InSeveralPassesAreThoseOfOne) {
  const SecondOrderStatistics one = second_order_statistics(*model_, *samples_, 0);
  // 64 x 64 moments fit, then each pass has some of the smaller ones; or each has one alone.
  for (const std::int64_t at_once : {4096, 1}) {
    const SecondOrderStatistics some =
        second_order_statistics(*model_, *samples_, 0, nullptr, at_once);
    EXPECT_EQ(some.groups, one.groups);
    EXPECT_EQ(some.left_out, 0);
    for (std::size_t i = 0; i < one.tensors.size(); ++i) {
      EXPECT_GT(some.tensors[i].importance, 0);
      EXPECT_EQ(some.tensors[i].importance, one.tensors[i].importance);
      EXPECT_EQ(some.tensors[i].moments.rows != nullptr,
                model_->tensors()[i].info.shape.size() == 2);
      expect_same(some.tensors[i].moments.columns.get(), one.tensors[i].moments.columns.get());
      expect_same(some.tensors[i].moments.rows.get(), one.tensors[i].moments.rows.get());
    }
  }
}

TEST_F(Statistics, AreNotTakenOverVeryManyInputs) {
  const auto wide = build_model("mlp:4097-4096-2", types_);
  const Dataset samples(at::randn({4, 4097}), at::zeros({4}, at::kLong));
  const SecondOrderStatistics statistics = second_order_statistics(*wide, samples, 0);
  // Neither for feedback nor, of twice that memory in float64, for refits.
  ASSERT_EQ(statistics.groups.size(), 1u);
  const std::size_t second = statistics.groups[0].at(0);
  EXPECT_EQ(wide->tensors()[second].info.shape[0], 2);
  EXPECT_NE(statistics.tensors[second].moments.columns, nullptr);
  EXPECT_EQ(statistics.left_out, 1);
}

TEST_F(Statistics, RefitsWithInputsOfSomeLayersAtATime) {
  const SecondOrderStatistics statistics = second_order_statistics(*model_, *samples_, 0);
  const std::size_t first = statistics.groups.at(0).at(0), second = statistics.groups.at(1).at(0);
  Refit all(*model_, *samples_, {first, second}), few(*model_, *samples_, {first, second}, 1);
  EXPECT_TRUE(all.keeps(first) && all.keeps(second));
  EXPECT_TRUE(few.keeps(first));
  EXPECT_FALSE(few.keeps(second));
  few.keep(*model_, second);
  EXPECT_TRUE(few.keeps(second));
  EXPECT_FALSE(few.keeps(first));
  const at::NoGradGuard no_grad;
  model_->tensors()[first].tensor.mul_(16).round_().div_(16);
  const Refit::Moments one = all.moments(*model_, second), other = few.moments(*model_, second);
  EXPECT_TRUE(at::equal(one.cross, other.cross));
  EXPECT_GT(one.cross.abs().max().item<double>(), 0);
  expect_same(one.factor.get(), other.factor.get());
}

TEST(LargeFile, HasTheBytesOfIntegersThatTheWriterCodes) {
  torch::manual_seed(5);
  const std::vector<NamedParameter> tensors = {named_weight("a", at::randn({2000, 2001})),
                                               named_weight("b", at::randn({30}))};
  const Registry types = all_types();
  GenomicBottleneck bottleneck(tensors, types, {.mode = WeightMode::kQuantized});
  std::vector<PackedValues> packed;
  ArtifactWriter writer("", "");
  for (const NamedParameter& p : tensors) {
    CodedValues values{.grid = default_grid(p.info.shape), .step = -20};
    const at::Tensor rounded = (p.tensor.flatten() * 3).round().to(at::kInt);
    values.integers.assign(rounded.data_ptr<int>(), rounded.data_ptr<int>() + rounded.numel());
    packed.emplace_back(values);
    writer.add_coded(p.info.name, p.info.dtype, p.info.shape, std::move(values));
  }
  BottleneckIntegers::set(bottleneck, packed);
  EXPECT_EQ(BottleneckFile::encode(bottleneck), writer.encode());
}

TEST_F(Statistics, OfOutputsThatAreNoScores) {
  // Of a linear layer with outputs y = W x and noise of deviation 1 in them, gradients are noise
  // times x: their moments over outputs are the identity times the squares of x.
  const auto linear = build_model("mlp:64-24", types_);
  Data inputs{"", data_.train, data_.test, Metric::kOutputError};
  inputs.has_targets = false;
  const Data known = answered(*linear, inputs);
  EXPECT_EQ(evaluate(*linear, known.test, known.metric), 0);
  EXPECT_TRUE(
      at::equal(known.test.range(0, 5).targets, linear->forward(data_.test.range(0, 5).inputs)));
  const Dataset samples = calibration_samples(known.train, 1000, 0);
  const SecondOrderStatistics statistics = second_order_statistics(*linear, samples, 0);
  const std::size_t weight = statistics.groups.at(0).at(0);
  const UpperFactor& rows = *statistics.tensors[weight].moments.rows;
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_NEAR(rows.diagonal(i), std::sqrt(1.1), 0.15) << i;
  const double squares = samples.range(0, 1000).inputs.square().mean().item<double>();
  EXPECT_NEAR(statistics.tensors[weight].importance / squares, 1, 0.1);

  const at::NoGradGuard no_grad;
  linear->tensors()[weight].tensor.mul_(1.1);
  EXPECT_NEAR(evaluate(*linear, known.test, known.metric), 0.01, 0.005) << "biases stay";
}

TEST_F(Statistics, RefusesOutputsThatAreNotFinite) {
  {
    const at::NoGradGuard no_grad;
    model_->tensors()[0].tensor.fill_(3e38f);
  }
  EXPECT_EQ(code_of([&] { second_order_statistics(*model_, *samples_, 0); }), Errc::kNonFinite);
  Data inputs{"", data_.train, data_.test, Metric::kOutputError};
  inputs.has_targets = false;
  EXPECT_EQ(code_of([&] { answered(*model_, inputs); }), Errc::kNonFinite);
}

TEST_F(Statistics, FeedbackAndRefitLoseLessAtTheSameBits) {
  GenomicBottleneck raw(model_->tensors(), types_, {.mode = WeightMode::kExact});
  train(*model_, raw, data_.train, {.epochs = 30});
  std::vector<std::size_t> tensors;
  std::vector<IntegerGrid> grids;
  for (std::size_t i = 0; i < model_->tensors().size(); ++i) {
    tensors.push_back(i);
    grids.push_back(default_grid(model_->tensors()[i].info.shape));
  }
  const at::NoGradGuard no_grad;
  const Batch judge = data_.train.range(1000, 300);
  const at::Tensor before = model_->forward(judge.inputs).log_softmax(1);
  CalibratedIntegers integers(*model_, tensors, grids,
                              second_order_statistics(*model_, *samples_, 0), *samples_, 0.75);
  const auto lost = [&](double x, const Rule& rule) {
    integers.choose(x, rule);
    const at::Tensor now = model_->forward(judge.inputs).log_softmax(1);
    return (before.exp() * (before - now)).sum(1).mean().item<double>();
  };
  const auto bits = [&] {
    IntegerEncoder encoder(CodecProfile::kSmall);
    for (const PackedValues& packed : integers.coded()) {
      const CodedValues values = packed.unpacked();
      encoder.add(values.grid, values.integers);
    }
    return encoder.ideal_bits();
  };
  const Rule alone{.columns = false, .rows = false}, columns{.columns = true, .rows = false},
      refitted{.columns = true, .rows = false, .refit = true};
  double x = -6, nearest = lost(x, alone);
  while (bits() > 3 * static_cast<double>(integers.numbers())) nearest = lost(x += 0.25, alone);
  const double wanted = bits();
  const auto at_the_same_bits = [&](const Rule& rule) {
    double y = x - 4, result = lost(y, rule);
    while (bits() > wanted) result = lost(y += 0.25, rule);
    return result;
  };
  const double fed = at_the_same_bits(columns), fitted = at_the_same_bits(refitted);
  EXPECT_LT(fed, 0.8 * nearest);
  EXPECT_LT(fitted, 0.8 * nearest);
  lost(x, refitted);
  const auto once = integers.coded();
  lost(x, {.columns = true, .rows = true, .refit = true});
  lost(x, refitted);
  for (std::size_t i = 0; i < once.size(); ++i)
    EXPECT_EQ(integers.coded()[i].unpacked().integers, once[i].unpacked().integers)
        << "the same again";
  integers.restore();
  EXPECT_TRUE(at::equal(model_->forward(judge.inputs).log_softmax(1), before));
}

}  // namespace
}  // namespace gbcompress
