#include "gbcompress/associated.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>
#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::vector<at::Tensor> joined(const AssociatedPart& a, const AssociatedPart& b) {
  std::vector<at::Tensor> all = a.parameters;
  all.insert(all.end(), b.parameters.begin(), b.parameters.end());
  return all;
}

void check(const AssociatedParts& parts) {
  std::set<const void*> seen;
  const std::pair<const char*, const AssociatedPart*> all[] = {
      {"f", &parts.f}, {"b", &parts.b}, {"g", &parts.g}, {"h", &parts.h}};
  for (const auto& [name, part] : all) {
    if (!part->forward)
      throw Error(Errc::kUsage, std::string("an associated layer needs a function for ") + name);
    for (const at::Tensor& p : part->parameters)
      if (p.numel() > 0 && !seen.insert(p.const_data_ptr()).second)
        throw Error(Errc::kUsage, std::string("a parameter of ") + name +
                                      " belongs to another part of the layer too; each part "
                                      "learns by a loss of its own");
  }
}

/// The losses that are not given.
AssociatedOptions with_losses(AssociatedOptions options) {
  if (!options.bridge_loss) options.bridge_loss = code_nats;
  if (options.code_loss) return options;
  options.code_loss =
      options.first ? [](const at::Tensor& given,
                         const at::Tensor& label) { return at::cross_entropy_loss(given, label); }
                    : AssociatedLoss(code_nats);
  return options;
}

void take_step(AdamW& optimizer, const std::vector<at::Tensor>& parameters, double factor) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& p : parameters) gradients.push_back(p.grad());
  optimizer.step(gradients, factor);
  for (const at::Tensor& p : parameters) p.mutable_grad().reset();
}

}  // namespace

at::Tensor code_nats(const at::Tensor& given, const at::Tensor& expected) {
  return (given - expected).square().sum() / (2.0 * static_cast<double>(expected.size(0)));
}

struct AssociatedLayer::Impl {
  Impl(AssociatedParts given, AssociatedOptions chosen)
      : parts(std::move(given)),
        options(with_losses(std::move(chosen))),
        of_encoder(joined(parts.f, parts.b)),
        of_autoencoder(joined(parts.g, parts.h)),
        encoder(of_encoder, options.encoder),
        autoencoder(of_autoencoder, options.autoencoder) {}

  AssociatedParts parts;
  AssociatedOptions options;
  std::vector<at::Tensor> of_encoder, of_autoencoder;
  AdamW encoder, autoencoder;
  double encoder_factor = 1, autoencoder_factor = 1;
  at::Tensor bridge_loss, code_loss;  ///< with their graphs, until backward()
  double bridge_value = 0, code_value = 0;
  bool has_gradients = false;
};

AssociatedLayer::AssociatedLayer(AssociatedParts parts, AssociatedOptions options) {
  check(parts);
  impl_ = std::make_unique<Impl>(std::move(parts), std::move(options));
}
AssociatedLayer::~AssociatedLayer() = default;
AssociatedLayer::AssociatedLayer(AssociatedLayer&&) noexcept = default;

AssociatedLayer::Signals AssociatedLayer::forward(const Signals& before) {
  const at::AutoGradMode with_grad(true);
  const at::Tensor code = impl_->parts.g.forward(before.code);
  impl_->code_loss = impl_->options.code_loss(impl_->parts.h.forward(code), before.code.detach());
  const at::Tensor signal = impl_->parts.f.forward(before.signal);
  impl_->bridge_loss = impl_->options.bridge_loss(impl_->parts.b.forward(signal), code.detach());
  impl_->code_value = impl_->code_loss.item<double>();
  impl_->bridge_value = impl_->bridge_loss.item<double>();
  impl_->has_gradients = false;
  return {signal.detach(), code.detach()};
}

void AssociatedLayer::backward() {
  if (!impl_->bridge_loss.defined())
    throw Error(Errc::kUsage, "backward() of an associated layer follows a forward()");
  std::exchange(impl_->code_loss, at::Tensor()).backward();
  std::exchange(impl_->bridge_loss, at::Tensor()).backward();
  impl_->has_gradients = true;
}

void AssociatedLayer::update() {
  if (!std::exchange(impl_->has_gradients, false))
    throw Error(Errc::kUsage, "update() of an associated layer follows a backward()");
  const at::NoGradGuard no_grad;
  take_step(impl_->autoencoder, impl_->of_autoencoder, impl_->autoencoder_factor);
  take_step(impl_->encoder, impl_->of_encoder, impl_->encoder_factor);
}

void AssociatedLayer::backward_and_update() {
  backward();
  update();
}

at::Tensor AssociatedLayer::infer(const at::Tensor& x, Path path) const {
  const at::NoGradGuard no_grad;
  const AssociatedParts& parts = impl_->parts;
  const AssociatedPart& part = path == Path::kForward  ? parts.f
                               : path == Path::kBridge ? parts.b
                                                       : parts.h;
  return part.forward(x);
}

double AssociatedLayer::bridge_loss() const { return impl_->bridge_value; }
double AssociatedLayer::code_loss() const { return impl_->code_value; }

void AssociatedLayer::set_rates(double encoder, double autoencoder) {
  if (!(encoder >= 0 && autoencoder >= 0))
    throw Error(Errc::kUsage, "factors on learning rates must be 0 or more");
  impl_->encoder_factor = encoder;
  impl_->autoencoder_factor = autoencoder;
}

at::Tensor infer(std::span<const AssociatedLayer> layers, const at::Tensor& x) {
  using Path = AssociatedLayer::Path;
  if (layers.empty()) throw Error(Errc::kUsage, "a chain of associated layers needs one");
  at::Tensor y = x;
  for (const AssociatedLayer& layer : layers) y = layer.infer(y, Path::kForward);
  y = layers.back().infer(y, Path::kBridge);
  for (std::size_t i = layers.size(); i-- > 0;) y = layers[i].infer(y, Path::kBack);
  return y;
}

}  // namespace gbcompress
