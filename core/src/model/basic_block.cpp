#include "model/basic_block.h"

#include <ATen/ATen.h>

#include "gbcompress/error.h"
#include "model/builtin.h"

namespace gbcompress {

torch::nn::Conv2d conv3x3(std::int64_t inputs, std::int64_t outputs, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, 3).stride(stride).padding(1).bias(false));
}

BasicBlockImpl::BasicBlockImpl(std::int64_t inputs, std::int64_t outputs)
    : extra(outputs - inputs),
      conv1(register_module("conv1", conv3x3(inputs, outputs, extra ? 2 : 1))),
      bn1(register_module("bn1", torch::nn::BatchNorm2d(outputs))),
      conv2(register_module("conv2", conv3x3(outputs, outputs, 1))),
      bn2(register_module("bn2", torch::nn::BatchNorm2d(outputs))),
      body(conv1, bn1, torch::nn::ReLU(), conv2, bn2) {}

at::Tensor BasicBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor y = at::relu(bn1->forward(conv1->forward(x)));
  return at::relu(bn2->forward(conv2->forward(y)) + shortcut(x));
}

at::Tensor BasicBlockImpl::shortcut(const at::Tensor& x) const {
  if (extra == 0) return x;
  const at::Tensor half = x.slice(2, 0, c10::nullopt, 2).slice(3, 0, c10::nullopt, 2);
  return at::constant_pad_nd(half, {0, 0, 0, 0, extra / 2, extra / 2});
}

namespace {

/// The shortcut has no weights, so that its transpose is known; the branch of the convolutions is
/// inverted by whoever asks.
class BasicBlockInverse final : public LayerInverse {
 public:
  /// @param published  the last activation goes back by being applied once more, and not by its
  ///                   slope at the point of the call
  BasicBlockInverse(BasicBlockImpl& block, const InverseRequest& request, bool published)
      : block_(block),
        published_(published),
        body_(request.invert(*block.body, "body", request.input)),
        input_shape_(request.input.sizes().vec()) {}

  at::Tensor forward(const at::Tensor& x, CallRecord& record) const override {
    const at::Tensor y = at::relu(body_->forward(x, record) + block_.shortcut(x));
    if (!published_) record.push_back(y.gt(0).to(y.dtype()));
    return y;
  }
  at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                     bool difference) const override {
    const at::Tensor sum = published_ ? at::relu(y) : y * record.back();
    return body_->inverse(sum, {record.begin(), record.end() - (published_ ? 0 : 1)}, difference) +
           back(sum);
  }
  bool affine() const override { return !published_ && body_->affine(); }
  std::vector<at::Tensor> parameters() const override { return body_->parameters(); }
  void make_symmetric() override { body_->make_symmetric(); }

 private:
  /// The transpose of the shortcut.
  at::Tensor back(const at::Tensor& y) const {
    if (block_.extra == 0) return y;
    std::vector<std::int64_t> shape = input_shape_;
    shape[0] = y.size(0);
    at::Tensor x = at::zeros(shape, y.options());
    x.slice(2, 0, c10::nullopt, 2)
        .slice(3, 0, c10::nullopt, 2)
        .copy_(y.narrow(1, block_.extra / 2, shape[1]));
    return x;
  }

  const BasicBlockImpl& block_;
  bool published_;
  std::unique_ptr<LayerInverse> body_;
  std::vector<std::int64_t> input_shape_;  ///< [1, channels, rows, columns]
};

std::unique_ptr<LayerInverse> invert(const InverseRequest& request, bool published) {
  auto* block = request.layer.as<BasicBlockImpl>();
  if (!block || !request.invert)
    throw Error(Errc::kFailure, "a BasicBlock is inverted by a strategy that inverts its layers");
  return std::make_unique<BasicBlockInverse>(*block, request, published);
}

}  // namespace

std::unique_ptr<LayerInverse> invert_basic_block(const InverseRequest& request) {
  return invert(request, false);
}
std::unique_ptr<LayerInverse> invert_basic_block_as_published(const InverseRequest& request) {
  return invert(request, true);
}

}  // namespace gbcompress
