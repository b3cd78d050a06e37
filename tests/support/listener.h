#pragma once
/// Recurrent models, for tests of statistics and calibration.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gbcompress/model.h"
#include "support/named_weight.h"

namespace gbcompress::testing {

/// Weights of `layers` of an LSTM (4 gates) or an Elman network (1), n inputs, k hidden values.
inline std::vector<at::Tensor> recurrent_weights(std::int64_t gates, std::int64_t n, std::int64_t k,
                                                 std::int64_t layers, std::int64_t directions,
                                                 double scale) {
  std::vector<at::Tensor> weights;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (std::int64_t way = 0; way < directions; ++way) {
      const std::int64_t inputs = layer == 0 ? n : k * directions;
      weights.push_back(at::randn({gates * k, inputs}) * scale);
      weights.push_back(at::randn({gates * k, k}) * scale);
      weights.push_back(at::randn({gates * k}));
      weights.push_back(at::randn({gates * k}));
    }
  return weights;
}

/// An LSTM of n inputs and k hidden values, and a linear layer over its last hidden state.
class Listener : public Model {
 public:
  Listener(std::int64_t n, std::int64_t k, std::int64_t outputs, double scale) : k_(k) {
    torch::manual_seed(3);
    weights_ = recurrent_weights(4, n, k, 1, 1, scale);
    weights_.push_back(at::randn({outputs, k}));
    const char* names[] = {"lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0",
                           "lstm.bias_hh_l0", "head.weight"};
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i].requires_grad_(true);
      tensors_.push_back(named_weight(names[i], weights_[i]));
    }
  }
  std::string arch() const override { return "listener"; }
  bool has_forward() const override { return true; }
  void train(bool) override {}
  /// Hidden states of all steps, [batch, steps, k].
  at::Tensor hidden(const at::Tensor& x) {
    const at::Tensor none = at::zeros({1, x.size(0), k_});
    return std::get<0>(at::lstm(x, {none, none},
                                std::vector(weights_.begin(), weights_.begin() + 4), true, 1, 0.0,
                                false, false, true));
  }
  at::Tensor forward(const at::Tensor& x) override {
    return at::linear(hidden(x).select(1, -1), weights_[4]);
  }

 private:
  std::int64_t k_;
  std::vector<at::Tensor> weights_;
};

/// A convolution over time, a batch norm, and a Listener of what they make of n channels.
class NormedListener : public Model {
 public:
  NormedListener(std::int64_t n, std::int64_t k, std::int64_t outputs, double scale)
      : listener_(n, k, outputs, scale) {
    tensors_ = listener_.tensors();
    add("conv.weight", at::randn({n, n, 3}) / 3, true);
    add("norm.weight", at::rand({n}) + 0.5, true);
    add("norm.bias", at::randn({n}) * 0.1, true);
    add("norm.running_mean", at::zeros({n}), false);
    add("norm.running_var", at::full({n}, static_cast<double>(n) / 3), false);
    for (std::size_t i = tensors_.size() - 4; i < tensors_.size(); ++i) {
      NamedParameter& p = tensors_[i];
      p.info.module_path = "norm";
      p.info.module_type = "BatchNorm1d";
      p.info.local_name = p.info.name.substr(5);
    }
  }
  std::string arch() const override { return "normed-listener"; }
  bool has_forward() const override { return true; }
  void train(bool) override {}
  /// @param x  [batch, steps, n]
  at::Tensor forward(const at::Tensor& x) override {
    const std::size_t first = tensors_.size() - 5;
    const auto tensor = [&](std::size_t i) { return tensors_[first + i].tensor; };
    const at::Tensor y = at::conv1d(x.transpose(1, 2), tensor(0), {}, 1, 1);
    return listener_.forward(
        at::batch_norm(y, tensor(1), tensor(2), tensor(3), tensor(4), false, 0.1, 1e-5, false)
            .transpose(1, 2));
  }

 private:
  void add(const std::string& name, at::Tensor values, bool trainable) {
    values.requires_grad_(trainable);
    tensors_.push_back(named_weight(name, std::move(values)));
    tensors_.back().trainable = trainable;
  }

  Listener listener_;
};

}  // namespace gbcompress::testing
