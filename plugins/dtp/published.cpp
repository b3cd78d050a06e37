#include "published.h"

#include <ATen/ATen.h>
#include <gbcompress/error.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

#include <functional>

#include "inverses.h"
#include "weighted.h"

namespace gbcompress::dtp {
namespace {

namespace nn = torch::nn;

/// A layer without weights. Its inverse is no affine function, so that differences of outputs are
/// taken behind it.
class Published final : public LayerInverse {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&, CallRecord&)>;
  using Inverse = std::function<at::Tensor(const at::Tensor&, const CallRecord&)>;
  Published(Forward forward, Inverse inverse)
      : forward_(std::move(forward)), inverse_(std::move(inverse)) {}
  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    return forward_(x, record);
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record, bool) const override {
    return inverse_(y, record);
  }

 private:
  Forward forward_;
  Inverse inverse_;
};

std::unique_ptr<LayerInverse> activation(std::function<at::Tensor(const at::Tensor&)> function) {
  return std::make_unique<Published>(
      [function](const at::Tensor& x, CallRecord&) { return function(x); },
      [function](const at::Tensor& y, const CallRecord&) { return function(y); });
}

/// MaxUnpool2d with the places of the maxima of the call.
std::unique_ptr<LayerInverse> max_pool(const nn::MaxPool2dImpl& layer, const at::Tensor& input) {
  const auto pair = [](const torch::ExpandingArray<2>& a) {
    return std::vector<std::int64_t>{(*a)[0], (*a)[1]};
  };
  const auto& o = layer.options;
  const std::vector<std::int64_t> size = {input.size(2), input.size(3)};
  return std::make_unique<Published>(
      [kernel = pair(o.kernel_size()), stride = pair(o.stride()), padding = pair(o.padding()),
       dilation = pair(o.dilation()),
       ceil = o.ceil_mode()](const at::Tensor& x, CallRecord& record) {
        auto [y, places] = at::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil);
        record = {places};
        return y;
      },
      [size](const at::Tensor& y, const CallRecord& record) {
        return at::max_unpool2d(y.contiguous(), record.at(0).contiguous(), size);
      });
}

}  // namespace

std::unique_ptr<LayerInverse> published_inverse(const InverseRequest& request,
                                                const std::string& type) {
  if (auto inverse = published_weighted_inverse(request)) return inverse;
  if (auto inverse = reshaping_inverse(request)) return inverse;
  nn::Module& layer = request.layer;
  if (layer.as<nn::ReLUImpl>()) return activation([](const at::Tensor& x) { return at::relu(x); });
  if (auto* elu = layer.as<nn::ELUImpl>())
    return activation([a = elu->options.alpha()](const at::Tensor& x) { return at::elu(x, a); });
  if (auto* pool = layer.as<nn::MaxPool2dImpl>()) return max_pool(*pool, request.input);
  if (auto* pool = layer.as<nn::AdaptiveAvgPool2dImpl>()) {
    const auto wanted = *pool->options.output_size();
    const std::vector<std::int64_t> from = {request.input.size(2), request.input.size(3)},
                                    to = {wanted[0].value_or(from[0]), wanted[1].value_or(from[1])};
    return std::make_unique<Published>(
        [to](const at::Tensor& x, CallRecord&) { return at::adaptive_avg_pool2d(x, to); },
        [from](const at::Tensor& y, const CallRecord&) {
          return at::adaptive_avg_pool2d(y, from);
        });
  }
  const std::string key = type + "#published";
  if (const InverseFactory factory = find_inverse(key))
    if (auto inverse = factory(request)) return inverse;
  const std::string& where = request.init.layer;
  throw Error(Errc::kUsage,
              "strategy dtp: stage " + where.substr(0, where.find('#')) + " holds a " + type +
                  ", which has no inverse in published form (Linear, Conv2d, BatchNorm2d, ReLU, "
                  "ELU, MaxPool2d, AdaptiveAvgPool2d, Flatten, Identity and the residual blocks of "
                  "ResNets have one); leave out inverse=published, or register one as \"" +
                  key + "\"");
}

}  // namespace gbcompress::dtp
