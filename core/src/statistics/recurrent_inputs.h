#pragma once
/// What reaches the weights of recurrent layers.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace gbcompress {

/// One layer in one direction, all its steps.
struct RecurrentUse {
  at::Tensor input_weight, hidden_weight;  ///< [gates, n] and [gates, k]
  /// Of each step the input beside the hidden state before it. [steps, n + k]
  at::Tensor rows;
};

/// Of aten::lstm, gru, rnn_tanh, rnn_relu and their cells, by the operator's arguments; empty for
/// other operators, packed sequences, and LSTMs with projections. Runs the layers once more,
/// without recording.
std::vector<RecurrentUse> recurrent_uses(std::string_view name,
                                         c10::ArrayRef<const c10::IValue> values);

}  // namespace gbcompress
