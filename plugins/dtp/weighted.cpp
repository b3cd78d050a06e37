#include "weighted.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/error.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "../common/channels_last.h"

namespace gbcompress::dtp {
namespace {

namespace nn = torch::nn;
using Sizes = std::vector<std::int64_t>;

/// Weights with LibTorch's usual spread for a layer of so many inputs.
at::Tensor fresh(NoiseKey key, const char* name, const Sizes& shape, std::int64_t inputs) {
  key.layer += std::string(".") + name;
  return normal_noise(key, shape).mul_(1 / std::sqrt(3.0 * static_cast<double>(inputs)));
}

/// A layer whose way back has weights: those, and a bias where the layer has one.
template <typename Layer>
class Weighted : public LayerInverse {
 public:
  bool affine() const override { return true; }
  std::vector<at::Tensor> parameters() const override {
    return bias_.defined() ? std::vector{weight_, bias_} : std::vector{weight_};
  }
  void make_symmetric() override {
    const c10::NoGradGuard no_grad;
    weight_.copy_(transposed());
    if (bias_.defined()) bias_.zero_();
  }

 protected:
  Weighted(const InverseRequest& request, Layer& layer)
      : layer_(layer), init_(request.init), device_(request.input.device()) {}
  void allocate(const Sizes& weight, std::int64_t fan_in, std::int64_t biases, bool biased) {
    weight_ = fresh(init_, "weight", weight, fan_in).to(device_);
    if (biased) bias_ = fresh(init_, "bias", {biases}, fan_in).to(device_);
  }
  at::Tensor bias(bool difference) const { return difference ? at::Tensor() : bias_; }
  virtual at::Tensor transposed() const = 0;

  Layer& layer_;
  NoiseKey init_;
  at::Device device_;
  at::Tensor weight_, bias_;
};

class LinearInverse final : public Weighted<nn::LinearImpl> {
 public:
  LinearInverse(const InverseRequest& request, nn::LinearImpl& layer) : Weighted(request, layer) {
    const auto outputs = layer.weight.size(0), inputs = layer.weight.size(1);
    allocate({inputs, outputs}, outputs, inputs, layer.bias.defined());
  }
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    return at::linear(x, layer_.weight, layer_.bias);
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    return at::linear(y, weight_, bias(difference));
  }

 private:
  at::Tensor transposed() const override { return layer_.weight.t(); }
};

class Conv2dInverse final : public Weighted<nn::Conv2dImpl> {
 public:
  Conv2dInverse(const InverseRequest& request, nn::Conv2dImpl& layer, bool always_biased)
      : Weighted(request, layer) {
    const auto& options = layer.options;
    const auto* pixels = std::get_if<torch::ExpandingArray<2>>(&options.padding());
    if (!pixels || !std::holds_alternative<torch::enumtype::kZeros>(options.padding_mode()))
      throw Error(Errc::kUsage, "a Conv2d is inverted only where its padding is a number of zeros");
    stride_ = {(*options.stride())[0], (*options.stride())[1]};
    padding_ = {(**pixels)[0], (**pixels)[1]};
    dilation_ = {(*options.dilation())[0], (*options.dilation())[1]};
    // Rows and columns at the far end that no step of the kernel reached.
    for (std::int64_t side = 0; side < 2; ++side) {
      const auto s = static_cast<std::size_t>(side);
      const std::int64_t span = dilation_[s] * (layer.weight.size(2 + side) - 1) + 1;
      unreached_.push_back((request.input.size(2 + side) + 2 * padding_[s] - span) % stride_[s]);
    }
    allocate(layer.weight.sizes().vec(), layer.weight[0].numel(), request.input.size(1),
             always_biased || layer.bias.defined());
  }
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    return at::conv2d(channels_last(x), layer_.weight, layer_.bias, stride_, padding_, dilation_,
                      layer_.options.groups());
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    return at::conv_transpose2d(channels_last(y), weight_, bias(difference), stride_, padding_,
                                unreached_, layer_.options.groups(), dilation_);
  }

 private:
  // The kernel of a transposed convolution is laid out as that of the convolution it transposes.
  at::Tensor transposed() const override { return layer_.weight; }

  Sizes stride_, padding_, dilation_, unreached_;
};

/// Scale and shift of each channel; the statistics are the forward call's.
template <typename Layer>
class BatchNormInverse final : public Weighted<Layer> {
 public:
  using Weighted<Layer>::layer_;
  BatchNormInverse(const InverseRequest& request, Layer& layer) : Weighted<Layer>(request, layer) {
    const auto channels = request.input.size(1);
    this->allocate({channels}, 1, channels, layer.bias.defined());
  }
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    const double eps = layer_.options.eps();
    const bool batch = layer_.is_training() || !layer_.running_mean.defined();
    const Sizes shape = broadcast(x);
    at::Tensor mean = layer_.running_mean, variance = layer_.running_var;
    if (batch) {
      const at::Tensor channels = x.transpose(0, 1).reshape({x.size(1), -1});
      mean = channels.mean(1);
      variance = channels.var(1, /*unbiased=*/false);
    }
    const at::Tensor scale = (variance + eps).rsqrt().view(shape);
    record = {scale};
    const at::Tensor normal = (x - mean.view(shape)) * scale;
    if (!layer_.weight.defined()) return normal;
    return normal * layer_.weight.view(shape) + layer_.bias.view(shape);
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    const Sizes shape = broadcast(y);
    const at::Tensor x = y * (this->weight_.view(shape) * record.at(0));
    const at::Tensor shift = this->bias(difference);
    return shift.defined() ? x + shift.view(shape) : x;
  }

 private:
  static Sizes broadcast(const at::Tensor& x) {
    Sizes shape(static_cast<std::size_t>(x.dim()), 1);
    shape[1] = x.size(1);
    return shape;
  }
  at::Tensor transposed() const override {
    return layer_.weight.defined() ? layer_.weight : at::ones_like(this->weight_);
  }
};

/// A batch norm of its own: its statistics are those of what it is given.
class FreshBatchNorm final : public LayerInverse {
 public:
  explicit FreshBatchNorm(nn::BatchNorm2dImpl& layer) : layer_(layer) {
    if (!layer.options.affine()) return;
    const auto channels = layer.options.num_features();
    weight_ = at::ones({channels}, layer.weight.options().requires_grad(false));
    bias_ = at::zeros({channels}, layer.weight.options().requires_grad(false));
  }
  at::Tensor forward(const at::Tensor& x, CallRecord&) const override {
    return norm(x, layer_.weight, layer_.bias, layer_.running_mean, layer_.running_var);
  }
  /// Outside of training with statistics 0 and 1, those of a fresh one.
  at::Tensor inverse(const at::Tensor& y, const CallRecord&, bool) const override {
    return norm(y, weight_, bias_, at::zeros({y.size(1)}, y.options()),
                at::ones({y.size(1)}, y.options()));
  }
  std::vector<at::Tensor> parameters() const override {
    return weight_.defined() ? std::vector{weight_, bias_} : std::vector<at::Tensor>();
  }

 private:
  /// With channels last LibTorch adds up all positions one by one, and the gradients of this loss,
  /// differences of nearly equal numbers, lose up to three digits more.
  at::Tensor norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& mean, const at::Tensor& variance) const {
    const bool batch = layer_.is_training() || !layer_.running_mean.defined();
    return at::batch_norm(x.contiguous(), weight, bias, batch ? at::Tensor() : mean,
                          batch ? at::Tensor() : variance, batch, 0, layer_.options.eps(), false);
  }

  nn::BatchNorm2dImpl& layer_;
  at::Tensor weight_, bias_;
};

}  // namespace

std::unique_ptr<LayerInverse> weighted_inverse(const InverseRequest& request) {
  nn::Module& layer = request.layer;
  if (auto* linear = layer.as<nn::LinearImpl>())
    return std::make_unique<LinearInverse>(request, *linear);
  if (auto* conv = layer.as<nn::Conv2dImpl>())
    return std::make_unique<Conv2dInverse>(request, *conv, /*always_biased=*/false);
  if (auto* norm = layer.as<nn::BatchNorm2dImpl>())
    return std::make_unique<BatchNormInverse<nn::BatchNorm2dImpl>>(request, *norm);
  if (auto* norm = layer.as<nn::BatchNorm1dImpl>())
    return std::make_unique<BatchNormInverse<nn::BatchNorm1dImpl>>(request, *norm);
  return nullptr;
}

std::unique_ptr<LayerInverse> published_weighted_inverse(const InverseRequest& request) {
  nn::Module& layer = request.layer;
  if (auto* linear = layer.as<nn::LinearImpl>())
    return std::make_unique<LinearInverse>(request, *linear);
  if (auto* conv = layer.as<nn::Conv2dImpl>())
    return std::make_unique<Conv2dInverse>(request, *conv, /*always_biased=*/true);
  if (auto* norm = layer.as<nn::BatchNorm2dImpl>()) return std::make_unique<FreshBatchNorm>(*norm);
  return nullptr;
}

}  // namespace gbcompress::dtp
