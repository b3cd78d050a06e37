#include "residual.h"

#include <gbcompress/error.h>
#include <torch/torch.h>

namespace gbcompress::nets {
namespace {

namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                std::int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

void add_norm(nn::Sequential& layers, std::int64_t channels, bool norms) {
  if (norms)
    layers->push_back(nn::BatchNorm2d(channels));
  else
    layers->push_back(nn::Identity());
}

class ResidualInverse final : public LayerInverse {
 public:
  ResidualInverse(ResidualBlockImpl& block, const InverseRequest& request, bool published)
      : published_(published),
        body_(request.invert(*block.body, "body", request.input)),
        shortcut_(request.invert(*block.shortcut, "shortcut", request.input)) {
    CallRecord record;
    body_->forward(request.input, record);
    of_body_ = record.size();
  }

  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    CallRecord own;
    const at::Tensor sum = body_->forward(x, record) + shortcut_->forward(x, own);
    record.insert(record.end(), own.begin(), own.end());
    const at::Tensor y = at::relu(sum);
    record.push_back(y.gt(0).to(y.dtype()));
    return y;
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    const at::Tensor sum = published_ ? at::relu(y) : y * record.back();
    const auto between = record.begin() + static_cast<std::ptrdiff_t>(of_body_);
    return body_->inverse(sum, {record.begin(), between}, difference) +
           shortcut_->inverse(sum, {between, record.end() - 1}, difference);
  }
  bool affine() const override { return !published_ && body_->affine() && shortcut_->affine(); }
  std::vector<at::Tensor> parameters() const override {
    std::vector<at::Tensor> all = body_->parameters();
    for (const at::Tensor& p : shortcut_->parameters()) all.push_back(p);
    return all;
  }
  void make_symmetric() override {
    body_->make_symmetric();
    shortcut_->make_symmetric();
  }

 private:
  bool published_;
  std::unique_ptr<LayerInverse> body_, shortcut_;
  std::size_t of_body_ = 0;  ///< tensors of a record that are the body's
};

std::unique_ptr<LayerInverse> invert(const InverseRequest& request, bool published) {
  auto* block = request.layer.as<ResidualBlockImpl>();
  if (!block || !request.invert)
    throw Error(Errc::kFailure,
                "a ResidualBlock is inverted by a strategy that inverts its layers");
  return std::make_unique<ResidualInverse>(*block, request, published);
}

}  // namespace

ResidualBlockImpl::ResidualBlockImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t stride,
                                     bool norms) {
  body->push_back(conv(inputs, outputs, 3, stride));
  add_norm(body, outputs, norms);
  body->push_back(nn::ReLU());
  body->push_back(conv(outputs, outputs, 3, 1));
  add_norm(body, outputs, norms);
  if (stride != 1 || inputs != outputs) {
    shortcut->push_back(conv(inputs, outputs, 1, stride));
    add_norm(shortcut, outputs, norms);
  }
  register_module("body", body);
  register_module("shortcut", shortcut);
}

at::Tensor ResidualBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor y = body->forward(x);
  return at::relu(y + (shortcut->is_empty() ? x : shortcut->forward(x)));
}

std::unique_ptr<LayerInverse> invert_residual_block(const InverseRequest& request) {
  return invert(request, false);
}
std::unique_ptr<LayerInverse> invert_residual_block_as_published(const InverseRequest& request) {
  return invert(request, true);
}

}  // namespace gbcompress::nets
