// Recurrent layers seen from outside, and statistics as plain data.
#include "statistics/collect.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "statistics/layer_inputs.h"
#include "support/all_types.h"
#include "support/listener.h"
#include "support/named_weight.h"

namespace gbcompress {
namespace {

using testing::Listener;
using testing::named_weight;
using testing::recurrent_weights;

std::vector<NamedParameter> named(const std::vector<at::Tensor>& weights) {
  std::vector<NamedParameter> all;
  for (std::size_t i = 0; i < weights.size(); ++i)
    all.push_back(named_weight("w" + std::to_string(i), weights[i]));
  return all;
}

/// Gates of every step: the rows times both weights side by side, plus both biases.
at::Tensor gates_of(const RecurrentCall& call, const std::vector<at::Tensor>& weights) {
  const at::Tensor both = at::cat({weights[call.input_weight], weights[call.hidden_weight]}, 1);
  return call.rows.mm(both.t()) + weights[call.input_weight + 2] + weights[call.input_weight + 3];
}

/// Hidden states [steps, batch, k] of an LSTM by its gates.
at::Tensor run_gates(const at::Tensor& gates, std::int64_t steps, at::Tensor cell) {
  std::vector<at::Tensor> hidden;
  for (const at::Tensor& step : gates.view({steps, -1, gates.size(1)}).unbind(0)) {
    const auto parts = step.chunk(4, 1);
    cell = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
    hidden.push_back(parts[3].sigmoid() * cell.tanh());
  }
  return at::stack(hidden);
}

TEST(RecurrentInputs, RowsTimesBothWeightsAreTheGates) {
  torch::manual_seed(1);
  const at::NoGradGuard no_grad;
  const std::int64_t steps = 6, batch = 3, k = 4;
  const at::Tensor x = at::randn({batch, steps, 5}), h = at::randn({4, batch, k}),
                   c = at::randn({4, batch, k});
  const std::vector<at::Tensor> weights = recurrent_weights(4, 5, k, 2, 2, 0.5);
  std::vector<RecurrentCall> seen;
  at::Tensor output;
  {
    const LayerInputs inputs(
        named(weights), [](const LayerCall&) { ADD_FAILURE() << "part of a recurrent layer"; },
        [&](const RecurrentCall& call) { seen.push_back(call); });
    output = std::get<0>(at::lstm(x, {h, c}, weights, true, 2, 0.0, false, true, true));
    inputs.check();
  }
  ASSERT_EQ(seen.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(seen[i].input_weight, 4 * i);
  for (const std::size_t way : {0u, 1u}) {  // of the last layer
    at::Tensor hidden =
        run_gates(gates_of(seen[2 + way], weights), steps, c[static_cast<std::int64_t>(2 + way)]);
    if (way == 1) hidden = hidden.flip(0);
    const at::Tensor expected = output.transpose(0, 1).narrow(2, way == 0 ? 0 : k, k);
    EXPECT_TRUE(at::allclose(hidden, expected, 1e-4, 1e-5)) << way;
  }
}

TEST(RecurrentInputs, OtherLayersAndCells) {
  torch::manual_seed(2);
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> elman = recurrent_weights(1, 5, 4, 1, 1, 0.5),
                                gru = recurrent_weights(3, 5, 4, 1, 1, 0.5),
                                cell = recurrent_weights(4, 5, 4, 1, 1, 0.5);
  std::vector<at::Tensor> all = elman;
  all.insert(all.end(), gru.begin(), gru.end());
  all.insert(all.end(), cell.begin(), cell.end());
  const at::Tensor x = at::randn({7, 2, 5}), h = at::randn({1, 2, 4}), c = at::randn({2, 4});
  std::vector<RecurrentCall> seen;
  at::Tensor outputs, unbatched, next;
  {
    const LayerInputs inputs(
        named(all), [](const LayerCall&) {},
        [&](const RecurrentCall& call) { seen.push_back(call); });
    outputs = std::get<0>(at::rnn_tanh(x, h, elman, true, 1, 0.0, false, false, false));
    unbatched = std::get<0>(
        at::rnn_relu(x.select(1, 0), h.select(1, 0), elman, true, 1, 0.0, false, false, false));
    at::gru(x, h, gru, true, 1, 0.0, false, false, false);
    next = std::get<1>(at::lstm_cell(x[0], {h[0], c}, cell[0], cell[1], cell[2], cell[3]));
    // Packed sequences are no rows of steps.
    at::gru(x.flatten(0, 1), at::full({7}, 2, at::kLong), h, gru, true, 1, 0.0, false, false);
    inputs.check();
  }
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(at::allclose(gates_of(seen[0], all).tanh(), outputs.flatten(0, 1), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(gates_of(seen[1], all).relu(), unbatched, 1e-4, 1e-5));
  EXPECT_EQ(seen[2].input_weight, 4u);
  EXPECT_EQ(seen[2].hidden_weight, 5u);
  EXPECT_EQ(seen[2].rows.sizes(), at::IntArrayRef({14, 9}));
  EXPECT_TRUE(at::equal(seen[2].rows.narrow(1, 0, 5), x.flatten(0, 1)));
  const auto parts = gates_of(seen[3], all).chunk(4, 1);
  EXPECT_TRUE(at::allclose(parts[1].sigmoid() * c + parts[0].sigmoid() * parts[2].tanh(), next,
                           1e-4, 1e-5));
}

TEST(CollectStatistics, AreTheMomentsOfWhatReachesEachWeight) {
  Listener model(6, 8, 3, 0.5);
  const at::Tensor x = at::randn({24, 5, 6});
  const Dataset samples(x, at::zeros({24}, at::kLong));
  const Statistics found = collect_statistics(model, samples, 0);
  ASSERT_EQ(found.tensors.size(), 4u);
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = model.hidden(x);
  const at::Tensor before = at::cat({at::zeros({24, 1, 8}), hidden.slice(1, 0, 4)}, 1);
  const at::Tensor rows = at::cat({x, before}, 2).flatten(0, 1), last = hidden.select(1, -1);
  const auto as_tensor = [](const std::vector<float>& values, std::int64_t n) {
    return at::tensor(values).view({n, -1});
  };
  const TensorStatistics& joint = found.tensors.at("lstm.weight_ih_l0|lstm.weight_hh_l0");
  EXPECT_TRUE(at::allclose(as_tensor(joint.input_moment, 14), rows.t().mm(rows) / 120, 1e-4, 1e-5));
  EXPECT_TRUE(joint.input_mean.empty() && joint.row_importance.empty());
  const TensorStatistics& head = found.tensors.at("head.weight");
  EXPECT_TRUE(at::allclose(as_tensor(head.input_moment, 8), last.t().mm(last) / 24, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(at::tensor(head.input_mean), last.mean(0), 1e-4, 1e-5));
  for (const char* name : {"lstm.weight_ih_l0", "lstm.weight_hh_l0"}) {
    const TensorStatistics& each = found.tensors.at(name);
    EXPECT_TRUE(each.input_moment.empty()) << name;
    ASSERT_EQ(each.row_importance.size(), 32u) << name;
    EXPECT_GT(*std::ranges::min_element(each.row_importance), 0) << name;
  }
  // Moments between rows have the importance of each as their diagonal.
  ASSERT_EQ(head.row_importance.size(), 3u);
  ASSERT_EQ(head.output_moment.size(), 9u);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(head.output_moment[4 * i], head.row_importance[i], 1e-4f * head.row_importance[i]);
  EXPECT_EQ(head.output_moment[1], head.output_moment[3]);
}

}  // namespace
}  // namespace gbcompress
