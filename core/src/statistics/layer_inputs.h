#pragma once
/// What reaches a model's weights: seen from outside, whoever wrote the forward pass.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// One product of inputs with a weight.
struct LayerCall {
  std::size_t tensor;  ///< the weight's index
  at::Tensor input;    ///< as the operator has it
  /// Calls with the same input and form have the same rows: columns, stride, padding, dilation.
  std::vector<std::int64_t> form;
  std::int64_t groups;  ///< of a convolution; else 1
  /// A weight [out, n] meets the input as rows [k, n]. Called at once or never.
  /// On the device of the input.
  /// @param most  of the k rows about as many, evenly spread; the same for the same sizes
  std::function<at::Tensor(std::int64_t most)> rows;
};

/// Steps of a recurrent layer in one direction: two weights whose products are added.
struct RecurrentCall {
  std::size_t input_weight, hidden_weight;  ///< indices; [gates, n] and [gates, k]
  /// Of each step the input beside the hidden state before it. [steps, n + k]
  at::Tensor rows;
};

/// While it lives, forward passes of this thread report linear layers, matrix products and
/// convolutions of 1 and 2 dimensions with one of the weights, in their order. Weights that are
/// used otherwise (embeddings, transposed convolutions, recurrent layers, on the fly) are not seen.
class LayerInputs {
 public:
  using Sink = std::function<void(const LayerCall&)>;
  using RecurrentSink = std::function<void(const RecurrentCall&)>;
  /// @param recurrent  if not null, sees recurrent layers, whose parts `sink` does not see then
  LayerInputs(const std::vector<NamedParameter>& tensors, Sink sink, RecurrentSink recurrent = {});
  ~LayerInputs();
  LayerInputs(const LayerInputs&) = delete;
  LayerInputs& operator=(const LayerInputs&) = delete;
  /// Throws what the sink threw, which ended the reports; to be called after forward passes.
  void check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gbcompress
