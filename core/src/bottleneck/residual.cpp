// Parameters and g-nets that are stored as integers times a step.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "artifact/integers.h"
#include "bottleneck/impl.h"
#include "bottleneck/planner.h"
#include "gbcompress/error.h"

namespace gbcompress {

void GenomicBottleneck::Impl::make_latents() {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const NamedParameter& p = tensors[t];
    if (!p.trainable || !p.tied_to.empty() || !is_real(p.info.dtype) || p.info.elements() == 0 ||
        mode_of(p.info.name, options) != WeightMode::kResidual)
      continue;
    coded.push_back(t);
    residual.latents.add(p.info.name, p.tensor, {}, options.row_steps);
  }
  for (std::size_t l = 0; l < routes.size(); ++l) {
    const auto found = std::find(coded.begin(), coded.end(), routes[l].tensor);
    if (found == coded.end()) continue;
    routes[l].prior = static_cast<std::size_t>(found - coded.begin());
    const GNetPlan& plan = layers[l].plan;
    residual.latents.add_prior(*routes[l].prior,
                               plan.generator == Generator::kStochastic && !routes[l].custom,
                               static_cast<double>(plan.output_scale));
    coded_gnets = true;
  }
  if (coded_gnets) make_gnet_latents();
}

void GenomicBottleneck::Impl::make_gnet_latents() {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = layers[l];
    routes[l].block = gnets.latents.size();
    const auto blocks = gnet_blocks(layer.plan);
    const std::vector<IntegerGrid> grids = theta_grids(layer.plan);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      at::Tensor block = layer.theta.narrow(1, blocks[b].first, blocks[b].count);
      block.mutable_grad() = layer.grad.narrow(1, blocks[b].first, blocks[b].count);
      gnets.latents.add(layer.name + "#theta" + std::to_string(b), block, grids[b]);
    }
  }
}

bool GenomicBottleneck::Impl::has_priors() const {
  return std::any_of(routes.begin(), routes.end(), [](const Route& r) { return r.prior; });
}

void GenomicBottleneck::Impl::take_theta(std::size_t l, const ArtifactReader& artifact,
                                         std::size_t stored) {
  const std::vector<float> theta = artifact.theta(stored);
  std::copy(theta.begin(), theta.end(), layers[l].theta.data_ptr<float>());
  const std::vector<int>& steps = artifact.tensors()[stored].theta_steps;
  for (std::size_t b = 0; coded_gnets && b < gnet_blocks(layers[l].plan).size(); ++b)
    gnets.latents.take(routes[l].block + b,
                       steps.empty() ? std::nullopt : std::optional<int>(steps[b]));
}

void GenomicBottleneck::Impl::take_residual(std::size_t entry, const CodedValues& values) {
  const at::NoGradGuard no_grad;
  std::vector<float> numbers = coded_floats(values);
  at::Tensor live = tensors[coded[entry]].tensor;
  at::Tensor sum = at::from_blob(numbers.data(), live.sizes(), at::kFloat);
  if (const Latents::Prior* prior = residual.latents.prior(entry)) sum.add_(prior->mean);
  live.copy_(sum);
  residual.latents.take(entry, values.step);
}

CodedTheta GenomicBottleneck::Impl::coded_theta(std::size_t layer) const {
  const std::size_t entry = routes[layer].block;
  CodedTheta theta;
  std::vector<std::int32_t> blocks;
  for (std::size_t b = 0; b < gnet_blocks(layers[layer].plan).size(); ++b) {
    const CodedValues values = gnets.latents.coded(entry + b);
    theta.steps.push_back(values.step);
    blocks.insert(blocks.end(), values.integers.begin(), values.integers.end());
  }
  theta.integers = from_blocks(layers[layer].plan, blocks);
  return theta;
}

void GenomicBottleneck::Impl::Coded::backward(double bit_price, const char* setting) {
  const std::int64_t step = optimizer->steps();
  latents.backward(bit_price, static_cast<std::uint64_t>(step));
  for (const at::Tensor& gradient : latents.gradients())
    if (!at::isfinite(gradient.sum()).item<bool>())
      throw Error(Errc::kNonFinite, "a gradient is not finite at step " + std::to_string(step + 1) +
                                        "; lower the learning rate (" + setting + ")");
}

void GenomicBottleneck::Impl::add_residual_rate() {
  if (coded.empty()) return;
  for (std::size_t t : coded) {
    at::Tensor& gradient = tensors[t].tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(tensors[t].tensor.detach());
  }
  residual.backward(bit_price, "rate.lr");
}

void GenomicBottleneck::Impl::add_gnet_rate() {
  if (coded_gnets) gnets.backward(bit_price, "optim.lr");
}

void GenomicBottleneck::set_bit_price(double loss_per_bit) { impl_->bit_price = loss_per_bit; }
double GenomicBottleneck::bit_price() const noexcept { return impl_->bit_price; }
double GenomicBottleneck::bits() const noexcept {
  return impl_->residual.latents.bits() + impl_->gnets.latents.bits();
}
bool GenomicBottleneck::coded_gnets() const noexcept { return impl_->coded_gnets; }

void GenomicBottleneck::expect(bool contexts) {
  impl_->residual.latents.expect(contexts);
  impl_->gnets.latents.expect(contexts);
}

void GenomicBottleneck::scale_steps(double factor) {
  impl_->residual.latents.scale_steps(factor);
  impl_->gnets.latents.scale_steps(factor);
}

void GenomicBottleneck::choose_integers(double lambda) {
  impl_->gnets.latents.choose(lambda);
  // What is left of residual parameters depends on what their g-nets have become.
  if (impl_->has_priors()) predict_weights();
  impl_->residual.latents.choose(lambda);
}

void GenomicBottleneck::quantise(double step, double evenness, Quantiser quantiser) {
  impl_->residual.latents.quantise(step, evenness, quantiser);
}

void GenomicBottleneck::set_step_factors(const std::vector<double>& factors) {
  std::vector<double> own;
  if (!factors.empty()) {
    if (factors.size() != impl_->tensors.size())
      throw Error(Errc::kUsage, "there must be one factor of the step for each tensor");
    for (const std::size_t t : impl_->coded) own.push_back(factors[t]);
    for (const double factor : own)
      if (!(factor > 0 && std::isfinite(factor)))
        throw Error(Errc::kUsage, "factors of a step must be above 0");
  }
  impl_->residual.latents.set_step_factors(std::move(own));
}

void GenomicBottleneck::retake(const std::vector<std::size_t>& tensors) {
  for (std::size_t i = 0; i < impl_->coded.size(); ++i)
    if (std::find(tensors.begin(), tensors.end(), impl_->coded[i]) != tensors.end())
      impl_->residual.latents.take(i, {});
}

double GenomicBottleneck::relative_error() const {
  return impl_->residual.latents.relative_error();
}

double GenomicBottleneck::expected_error(double step, double evenness) const {
  return impl_->residual.latents.expected_error(step, evenness);
}

}  // namespace gbcompress
