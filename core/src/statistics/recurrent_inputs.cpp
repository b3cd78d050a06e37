#include "statistics/recurrent_inputs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

namespace gbcompress {
namespace {

/// The arguments of a call over sequences.
struct Sequences {
  at::Tensor input;                ///< [steps, batch, n]
  std::vector<at::Tensor> states;  ///< [layers * directions, batch, k] each
  std::vector<at::Tensor> weights;
  bool biases = false, both = false;
  std::int64_t layers = 1;

  std::int64_t per_layer() const { return biases ? 4 : 2; }
  bool fits() const {
    return input.dim() == 3 &&
           static_cast<std::int64_t>(weights.size()) == layers * (both ? 2 : 1) * per_layer();
  }
};

bool has_sequences(std::string_view name) {
  return name == "aten::lstm" || name == "aten::gru" || name == "aten::rnn_tanh" ||
         name == "aten::rnn_relu";
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  return value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>();
}

/// Packed sequences have a tensor where the weights are here: they do not fit.
Sequences sequences_of(c10::ArrayRef<const c10::IValue> values) {
  Sequences all;
  if (values.size() < 9 || !values[0].isTensor() || !values[2].isTensorList() ||
      !values[3].isBool())
    return all;
  all.input = values[0].toTensor().detach();
  all.states = tensors_of(values[1]);
  all.weights = values[2].toTensorVector();
  all.biases = values[3].toBool();
  all.layers = values[4].toInt();
  all.both = values[7].toBool();
  for (at::Tensor& state : all.states) state = state.detach();
  if (all.input.dim() == 2) {
    all.input = all.input.unsqueeze(1);
    for (at::Tensor& state : all.states) state = state.unsqueeze(1);
  } else if (values[8].toBool()) {
    all.input = all.input.transpose(0, 1);
  }
  return all;
}

/// Hidden states of one layer in one direction, [steps, batch, k].
at::Tensor run_layer(std::string_view name, const at::Tensor& input,
                     const std::vector<at::Tensor>& states, const std::vector<at::Tensor>& weights,
                     bool biases) {
  if (name == "aten::lstm")
    return std::get<0>(at::lstm(input, states, weights, biases, 1, 0.0, false, false, false));
  const at::Tensor& state = states.front();
  if (name == "aten::gru")
    return std::get<0>(at::gru(input, state, weights, biases, 1, 0.0, false, false, false));
  if (name == "aten::rnn_tanh")
    return std::get<0>(at::rnn_tanh(input, state, weights, biases, 1, 0.0, false, false, false));
  return std::get<0>(at::rnn_relu(input, state, weights, biases, 1, 0.0, false, false, false));
}

at::Tensor side_by_side(const at::Tensor& input, const at::Tensor& hidden) {
  const at::Tensor both = at::cat({input, hidden}, -1);
  return both.reshape({-1, both.size(-1)}).to(at::kFloat);
}

std::vector<RecurrentUse> uses_of(std::string_view name, const Sequences& all) {
  std::vector<RecurrentUse> uses;
  at::Tensor input = all.input;
  const std::int64_t directions = all.both ? 2 : 1;
  for (std::int64_t layer = 0; layer < all.layers; ++layer) {
    std::vector<at::Tensor> outputs;
    for (std::int64_t way = 0; way < directions; ++way) {
      const std::int64_t index = layer * directions + way;
      const auto first = all.weights.begin() + index * all.per_layer();
      std::vector<at::Tensor> states;
      for (const at::Tensor& state : all.states) states.push_back(state.narrow(0, index, 1));
      const at::Tensor seen = way == 0 ? input : input.flip(0);
      const at::Tensor hidden =
          run_layer(name, seen, states, {first, first + all.per_layer()}, all.biases);
      const at::Tensor before = at::cat({states.front(), hidden.slice(0, 0, hidden.size(0) - 1)});
      uses.push_back({*first, *(first + 1), side_by_side(seen, before)});
      outputs.push_back(way == 0 ? hidden : hidden.flip(0));
    }
    input = at::cat(outputs, 2);
  }
  return uses;
}

std::vector<RecurrentUse> uses_of_cell(c10::ArrayRef<const c10::IValue> values) {
  if (values.size() < 4 || !values[0].isTensor() || !values[2].isTensor() || !values[3].isTensor())
    return {};
  const std::vector<at::Tensor> states = tensors_of(values[1]);
  if (states.empty()) return {};
  return {{values[2].toTensor(), values[3].toTensor(),
           side_by_side(values[0].toTensor().detach(), states.front().detach())}};
}

}  // namespace

std::vector<RecurrentUse> recurrent_uses(std::string_view name,
                                         c10::ArrayRef<const c10::IValue> values) {
  const at::NoGradGuard no_grad;
  const at::DisableRecordFunctionGuard unseen;
  if (name == "aten::lstm_cell" || name == "aten::gru_cell" || name == "aten::rnn_tanh_cell" ||
      name == "aten::rnn_relu_cell")
    return uses_of_cell(values);
  if (!has_sequences(name)) return {};
  const Sequences all = sequences_of(values);
  if (!all.input.defined() || all.states.empty() || !all.fits()) return {};
  return uses_of(name, all);
}

}  // namespace gbcompress
