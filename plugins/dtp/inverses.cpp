#include "inverses.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/error.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>

#include "published.h"
#include "weighted.h"

namespace gbcompress::dtp {
namespace {

namespace nn = torch::nn;
using Sizes = std::vector<std::int64_t>;

/// An activation goes back by its slope at the point of the call: where a unit is silent, no target
/// passes. Applied to a target instead, ReLU would let through what lifts a unit off its floor.
class Activation final : public LayerInverse {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;
  /// @param slope  from the activation's output
  Activation(Function value, Function slope) : value_(std::move(value)), slope_(std::move(slope)) {}
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    const at::Tensor y = value_(x);
    record = {slope_(y)};
    return y;
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record, bool) const override {
    return y * record.at(0);
  }
  bool affine() const override { return true; }

 private:
  Function value_, slope_;
};

/// A layer without weights whose way back is the transpose of what it did in the call.
class Adjoint final : public LayerInverse {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&, CallRecord&)>;
  using Inverse = std::function<at::Tensor(const at::Tensor&, const CallRecord&)>;
  Adjoint(Forward forward, Inverse inverse)
      : forward_(std::move(forward)), inverse_(std::move(inverse)) {}
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    return forward_(x, record);
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record, bool) const override {
    return inverse_(y, record);
  }
  bool affine() const override { return true; }

 private:
  Forward forward_;
  Inverse inverse_;
};

/// Each value goes back to where the call found its maximum: MaxUnpool, and where windows overlap
/// the sum of what they send to the same place.
std::unique_ptr<LayerInverse> max_pool(const nn::MaxPool2dImpl& layer) {
  const auto pair = [](const torch::ExpandingArray<2>& a) { return Sizes{(*a)[0], (*a)[1]}; };
  const auto& o = layer.options;
  const Sizes kernel = pair(o.kernel_size()), stride = pair(o.stride()),
              padding = pair(o.padding()), dilation = pair(o.dilation());
  const bool ceil = o.ceil_mode();
  return std::make_unique<Adjoint>(
      [=](const at::Tensor& x, CallRecord& record) {
        auto [y, places] = at::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil);
        record = {x, places};
        return y;
      },
      [=](const at::Tensor& y, const CallRecord& record) {
        return at::max_pool2d_with_indices_backward(y, record.at(0), kernel, stride, padding,
                                                    dilation, ceil, record.at(1));
      });
}

std::unique_ptr<LayerInverse> adaptive_avg_pool(const nn::AdaptiveAvgPool2dImpl& layer,
                                                const at::Tensor& input) {
  const auto wanted = *layer.options.output_size();
  const Sizes size = {wanted[0].value_or(input.size(2)), wanted[1].value_or(input.size(3))};
  return std::make_unique<Adjoint>(
      [=](const at::Tensor& x, CallRecord& record) {
        record = {x};
        return at::_adaptive_avg_pool2d(x, size);
      },
      [](const at::Tensor& y, const CallRecord& record) {
        return at::_adaptive_avg_pool2d_backward(y, record.at(0));
      });
}

std::unique_ptr<LayerInverse> flatten(const nn::FlattenImpl& layer, const at::Tensor& input) {
  const Sizes shape(input.sizes().begin() + 1, input.sizes().end());
  return std::make_unique<Adjoint>(
      [first = layer.options.start_dim(), last = layer.options.end_dim()](
          const at::Tensor& x, CallRecord&) { return x.flatten(first, last); },
      [shape](const at::Tensor& y, const CallRecord&) {
        Sizes whole = {y.size(0)};
        whole.insert(whole.end(), shape.begin(), shape.end());
        return y.reshape(whole);
      });
}

}  // namespace

std::unique_ptr<LayerInverse> reshaping_inverse(const InverseRequest& request) {
  nn::Module& layer = request.layer;
  if (auto* flat = layer.as<nn::FlattenImpl>()) return flatten(*flat, request.input);
  if (layer.as<nn::IdentityImpl>())
    return std::make_unique<Adjoint>([](const at::Tensor& x, CallRecord&) { return x; },
                                     [](const at::Tensor& y, const CallRecord&) { return y; });
  return nullptr;
}

namespace {

std::unique_ptr<LayerInverse> built_in(const InverseRequest& request) {
  nn::Module& layer = request.layer;
  if (auto inverse = weighted_inverse(request)) return inverse;
  if (layer.as<nn::ReLUImpl>())
    return std::make_unique<Activation>([](const at::Tensor& x) { return at::relu(x); },
                                        [](const at::Tensor& y) { return y.gt(0).to(y.dtype()); });
  if (auto* elu = layer.as<nn::ELUImpl>())
    return std::make_unique<Activation>(
        [a = elu->options.alpha()](const at::Tensor& x) { return at::elu(x, a); },
        [a = elu->options.alpha()](const at::Tensor& y) {
          if (a == 1) return y.clamp_max(0).add_(1);
          return at::where(y > 0, 1.0f, y + a);
        });
  if (layer.as<nn::TanhImpl>())
    return std::make_unique<Activation>([](const at::Tensor& x) { return x.tanh(); },
                                        [](const at::Tensor& y) { return 1 - y * y; });
  if (layer.as<nn::SigmoidImpl>())
    return std::make_unique<Activation>([](const at::Tensor& x) { return x.sigmoid(); },
                                        [](const at::Tensor& y) { return y * (1 - y); });
  if (auto* pool = layer.as<nn::MaxPool2dImpl>()) return max_pool(*pool);
  if (auto* pool = layer.as<nn::AdaptiveAvgPool2dImpl>())
    return adaptive_avg_pool(*pool, request.input);
  return reshaping_inverse(request);
}

/// "Conv2d" of "torch::nn::Conv2dImpl".
std::string type_of(const nn::Module& layer) {
  std::string name = layer.name();
  name = name.substr(name.rfind(':') + 1);
  return name.ends_with("Impl") ? name.substr(0, name.size() - 4) : name;
}

/// The layers that run one after another: those of a Sequential, nested ones taken apart, or the
/// module itself.
void collect(nn::Module& module, std::vector<nn::Module*>& layers) {
  if (!module.as<nn::SequentialImpl>()) {
    layers.push_back(&module);
    return;
  }
  for (const auto& child : module.children()) collect(*child, layers);
}

/// The inverses of layers that run one after another, in the order of the forward pass.
using Chain = std::vector<std::unique_ptr<LayerInverse>>;
Chain chain_of(nn::Module& module, const std::string& where, at::Tensor input, std::uint64_t seed,
               InverseForm form);

/// Several layers as one. The records of a call lie one
/// behind another; how many tensors each layer leaves does not change from call to call.
class ChainInverse final : public LayerInverse {
 public:
  ChainInverse(Chain chain, const at::Tensor& input) : chain_(std::move(chain)) {
    at::Tensor x = input;
    for (const auto& layer : chain_) {
      CallRecord record;
      x = layer->forward(x, record);
      tensors_.push_back(record.size());
    }
  }
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    at::Tensor y = x;
    record.clear();
    for (const auto& layer : chain_) {
      CallRecord own;
      y = layer->forward(y, own);
      record.insert(record.end(), own.begin(), own.end());
    }
    return y;
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    at::Tensor x = y;
    auto end = record.end();
    for (std::size_t i = chain_.size(); i-- > 0;) {
      const auto begin = end - static_cast<std::ptrdiff_t>(tensors_[i]);
      x = chain_[i]->inverse(x, CallRecord(begin, end), difference);
      end = begin;
    }
    return x;
  }
  bool affine() const override {
    return std::all_of(chain_.begin(), chain_.end(), [](const auto& l) { return l->affine(); });
  }
  std::vector<at::Tensor> parameters() const override {
    std::vector<at::Tensor> all;
    for (const auto& layer : chain_)
      for (const at::Tensor& p : layer->parameters()) all.push_back(p);
    return all;
  }
  void make_symmetric() override {
    for (const auto& layer : chain_) layer->make_symmetric();
  }

 private:
  Chain chain_;
  std::vector<std::size_t> tensors_;  ///< in each layer's record
};

/// @param where  "conv1#0": the stage, and the number of the layer in it
std::unique_ptr<LayerInverse> inverse_of(nn::Module& layer, const std::string& where,
                                         const at::Tensor& input, std::uint64_t seed,
                                         InverseForm form) {
  InverseRequest request{layer, input, {seed, "dtp.init", where, 0}, {}};
  request.invert = [&](nn::Module& part, const std::string& name, const at::Tensor& x) {
    return std::make_unique<ChainInverse>(chain_of(part, where + "." + name, x, seed, form), x);
  };
  const std::string type = type_of(layer);
  if (form == InverseForm::kPublished) return published_inverse(request, type);
  if (auto inverse = built_in(request)) return inverse;
  if (const InverseFactory factory = find_inverse(type))
    if (auto inverse = factory(request)) return inverse;
  throw Error(Errc::kUsage, "strategy dtp: stage " + where.substr(0, where.find('#')) +
                                " holds a " + type + ", which has no inverse (layer " + where +
                                ", counted from 0); a plugin adds one by register_inverse(\"" +
                                type + "\", factory) (gbcompress/strategy.h)");
}

Chain chain_of(nn::Module& module, const std::string& where, at::Tensor input, std::uint64_t seed,
               InverseForm form) {
  std::vector<nn::Module*> layers;
  collect(module, layers);
  Chain chain;
  for (nn::Module* layer : layers) {
    auto inverse =
        inverse_of(*layer, where + "#" + std::to_string(chain.size()), input, seed, form);
    CallRecord record;
    input = inverse->forward(input, record);
    chain.push_back(std::move(inverse));
  }
  return chain;
}

}  // namespace

std::unique_ptr<LayerInverse> invert_stage(const Stage& stage, const at::Tensor& input,
                                           std::uint64_t seed, InverseForm form) {
  return std::make_unique<ChainInverse>(chain_of(*stage.module, stage.name, input, seed, form),
                                        input);
}

}  // namespace gbcompress::dtp
