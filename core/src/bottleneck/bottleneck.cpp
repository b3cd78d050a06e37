#include "gbcompress/bottleneck.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>

#include "base/text.h"
#include "bottleneck/impl.h"
#include "bottleneck/planner.h"
#include "dist/average.h"
#include "gbcompress/cuda_kernel.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

std::unique_ptr<TileKernel> make_kernel(const std::string& name) {
  if (name == "fused") return make_fused_kernel();
  if (name == "reference") return make_reference_kernel();
  if (name == "cuda") return make_cuda_kernel();
  throw Error(Errc::kUsage,
              "kernel " + printable(name) + " is not known; use fused, cuda or reference");
}

}  // namespace

GenomicBottleneck::Impl::Impl(std::vector<NamedParameter> all, const Registry& types,
                              const BottleneckOptions& chosen, Group* ranks)
    : options(chosen),
      group(ranks && ranks->world() > 1 ? ranks : nullptr),
      kernel(make_kernel(chosen.kernel)),
      tensors(std::move(all)),
      residual(chosen.seed, chosen.step_speed),
      gnets(chosen.seed, chosen.step_speed),
      coded_gnets(chosen.coded_gnets) {
  make_routes(types);
  make_latents();
  place();
  make_optimizers();
}

void GenomicBottleneck::Impl::make_routes(const Registry& types) {
  std::map<std::string, std::size_t> by_key;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto plan = plan_parameter(tensors[t], types, options);
    if (!plan) continue;
    const auto [entry, added] = by_key.try_emplace(bank_key(*plan), banks.size());
    if (added) banks.push_back({bank_shape(*plan), {}, {}, {}});
    banks[entry->second].layers.push_back(layers.size());
    Route route;
    route.type = &types.require(plan->type_id, plan->type_revision);
    route.tensor = t;
    route.bank = entry->second;
    route.custom = route.type->supports("custom-build") != 0;
    routes.push_back(std::move(route));
    layers.push_back({tensors[t].info.name,
                      plan->type_id,
                      *plan,
                      {},
                      {},
                      tensors[t].tensor,
                      tensors[t].tensor.detach().clone()});
  }

  std::int64_t total = 0;
  for (const Layer& layer : layers) total += plan_parameters(layer.plan);
  theta = at::zeros({total}, at::kFloat);
  grad = at::zeros({total}, at::kFloat);
  std::int64_t offset = 0;
  for (Bank& bank : banks) {
    const std::int64_t parameters = bank.shape.parameters();
    std::int64_t tiles = 0;
    for (std::size_t l : bank.layers) {
      routes[l].first = tiles;
      tiles += layers[l].plan.grid().tiles();
    }
    bank.theta = theta.narrow(0, offset, tiles * parameters).view({tiles, parameters});
    bank.grad = grad.narrow(0, offset, tiles * parameters).view({tiles, parameters});
    offset += tiles * parameters;
    for (std::size_t l : bank.layers) {
      Layer& layer = layers[l];
      const std::int64_t count = layer.plan.grid().tiles();
      layer.theta = bank.theta.narrow(0, routes[l].first, count);
      layer.grad = bank.grad.narrow(0, routes[l].first, count);
      initialise_gnets(bank.shape, options.seed, layer.name, layer.theta);
      if (routes[l].custom)
        routes[l].staging = at::zeros(
            {count, bank.shape.tile_rows, bank.shape.tile_cols, bank.shape.kernel}, at::kFloat);
      else if (layer.weights.scalar_type() != at::kFloat || !layer.weights.is_contiguous())
        routes[l].staging = at::zeros(layer.weights.sizes(), at::kFloat);
    }
  }
}

void GenomicBottleneck::Impl::make_optimizers() {
  // What this rank steps, bank by bank for any number of ranks: where a vector ends decides how its
  // last numbers are rounded.
  std::vector<at::Tensor> own;
  for (std::size_t b = 0; b < banks.size(); ++b)
    own.push_back(owned[b] ? banks[b].theta.narrow(0, owned[b]->first(), owned[b]->count())
                           : banks[b].theta);
  gnet_optimizer = std::make_unique<AdamW>(std::move(own), options.gnet_optimizer);
  std::vector<bool> elsewhere(tensors.size(), false);
  for (const Route& route : routes) elsewhere[route.tensor] = true;
  for (const std::size_t t : coded) elsewhere[t] = true;
  plain.clear();
  std::vector<at::Tensor> values;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (elsewhere[t] || !tensors[t].trainable || !tensors[t].tied_to.empty()) continue;
    plain.push_back(t);
    values.push_back(tensors[t].tensor);
  }
  plain_optimizer = std::make_unique<AdamW>(std::move(values), options.plain_optimizer);
  residual.optimizer =
      std::make_unique<AdamW>(residual.latents.values(), options.residual_optimizer);
  // The logarithm of a step is nothing that should decay.
  AdamWOptions gnet_options = options.gnet_optimizer;
  gnet_options.weight_decay = 0;
  gnets.optimizer = std::make_unique<AdamW>(gnets.latents.values(), gnet_options);
}

/// New numbers for every stochastic layer, keyed by layer and step: whoever computes a tile, and in
/// whatever order, draws the same.
void GenomicBottleneck::Impl::draw_noise() {
  const auto step =
      static_cast<std::uint64_t>((coded_gnets ? gnets.optimizer : gnet_optimizer)->steps());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    routes[l].noise.reset();
    if (training && layers[l].plan.generator == Generator::kStochastic && !routes[l].prior)
      routes[l].noise.emplace(options.seed, "weights", layers[l].name, step);
  }
}

std::vector<TileTarget> GenomicBottleneck::Impl::targets(std::size_t bank) {
  std::vector<TileTarget> result;
  for (std::size_t l : banks[bank].layers) {
    const Layer& layer = layers[l];
    const Route& route = routes[l];
    const TileGrid grid = layer.plan.grid();
    Latents::Prior* prior = route.prior ? residual.latents.prior(*route.prior) : nullptr;
    const at::Tensor& to = route.custom              ? route.staging
                           : prior                   ? prior->mean
                           : route.staging.defined() ? route.staging
                                                     : layer.weights;
    append_tiles(
        result, grid, to.data_ptr<float>(), route.custom, layer.plan.output_scale,
        route.noise ? &*route.noise : nullptr,
        prior && prior->log_deviation.defined() ? prior->log_deviation.data_ptr<float>() : nullptr);
  }
  return result;
}

GenomicBottleneck::GenomicBottleneck(torch::nn::Module& module, const Registry& types,
                                     const BottleneckOptions& options, Group* group)
    : GenomicBottleneck(named_parameters(module), types, options, group) {}
GenomicBottleneck::GenomicBottleneck(std::vector<NamedParameter> tensors, const Registry& types,
                                     const BottleneckOptions& options, Group* group)
    : impl_(std::make_unique<Impl>(std::move(tensors), types, options, group)) {}
GenomicBottleneck::~GenomicBottleneck() = default;
GenomicBottleneck::GenomicBottleneck(GenomicBottleneck&&) noexcept = default;
GenomicBottleneck& GenomicBottleneck::operator=(GenomicBottleneck&&) noexcept = default;

void GenomicBottleneck::zero_grad() {
  impl_->grad.zero_();
  for (NamedParameter& p : impl_->tensors)
    if (p.trainable) p.tensor.mutable_grad().reset();
}

void GenomicBottleneck::predict_weights() {
  const at::NoGradGuard no_grad;
  impl_->draw_noise();
  impl_->gnets.latents.predict();
  for (std::size_t b = 0; b < impl_->banks.size(); ++b) {
    const Bank& bank = impl_->banks[b];
    if (impl_->owned[b])
      impl_->owned[b]->forward(*impl_->kernel, span_of(bank.theta), impl_->targets(b));
    else
      impl_->kernel->forward(bank.shape, span_of(bank.theta), impl_->targets(b));
  }
  for (std::size_t l = 0; l < impl_->layers.size(); ++l) {
    Impl::Route& route = impl_->routes[l];
    at::Tensor weights = impl_->layers[l].weights;
    if (route.custom) {
      const at::AutoGradMode with_grad(true);
      const at::Tensor tiles = route.staging.detach().requires_grad_();
      route.built =
          route.type->build(impl_->layers[l].plan, tiles, impl_->tensors[route.tensor].info.shape);
      route.staging = tiles;
    }
    if (route.prior) {  // elsewhere the kernel has written the mean
      if (route.custom)
        impl_->residual.latents.prior(*route.prior)->mean.copy_(route.built.detach());
      continue;
    }
    if (route.staging.defined())
      weights.copy_(route.custom ? route.built.detach() : route.staging);
    else
      weights.unsafeGetTensorImpl()->bump_version();  // autograd must notice the kernel's writes
  }
  impl_->residual.latents.predict();
}

at::Tensor GenomicBottleneck::Impl::gradient_of(Route& route, const at::Tensor& weights) {
  at::Tensor gradient =
      route.prior ? residual.latents.prior(*route.prior)->mean_gradient : weights.grad();
  if (!gradient.defined()) gradient = at::zeros_like(weights);
  gradient = gradient.to(at::kFloat);
  if (route.custom) {
    if (!route.built.defined())
      throw Error(Errc::kUsage, "backward() was called before predict_weights()");
    gradient = torch::autograd::grad({route.built}, {route.staging}, {gradient},
                                     /*retain_graph=*/true)[0];
  }
  return gradient.to(at::kFloat).contiguous();
}

std::vector<TileSource> GenomicBottleneck::Impl::sources(std::size_t b, float factor,
                                                         std::vector<at::Tensor>& alive) {
  std::vector<TileSource> result;
  for (std::size_t l : banks[b].layers) {
    const Layer& layer = layers[l];
    Route& route = routes[l];
    const TileGrid grid = layer.plan.grid();
    const double std = layer.plan.output_scale / 2;
    // A price is added to the gradient of coded g-nets, so that must be the loss's own.
    const float scale = static_cast<float>(
        options.gradient_scale == GradientScale::kTorchGb && !coded_gnets
            ? layer.plan.output_scale / (static_cast<double>(grid.positions()) * std * std)
            : layer.plan.output_scale);
    alive.push_back(gradient_of(route, layer.weights));
    const float* data = alive.back().data_ptr<float>();
    const float* log_deviation = nullptr;
    const Latents::Prior* prior = route.prior ? residual.latents.prior(*route.prior) : nullptr;
    if (prior && prior->log_deviation.defined()) {
      alive.push_back(prior->log_deviation_gradient * factor);
      log_deviation = alive.back().data_ptr<float>();
    }
    append_tiles(result, grid, data, route.custom, scale * factor,
                 route.noise ? &*route.noise : nullptr, log_deviation);
  }
  return result;
}

void GenomicBottleneck::backward() {
  std::optional<Average> plain;
  std::vector<Pending> sums;
  const float average = impl_->group ? 1.0f / static_cast<float>(impl_->group->world()) : 1.0f;
  if (impl_->group) {
    // Batch-norm statistics too: with them the same everywhere after each step, whatever is saved
    // is the state of every rank.
    std::vector<at::Tensor> shared = impl_->carried_gradients();
    for (at::Tensor& buffer : impl_->float_buffers()) shared.push_back(buffer);
    plain.emplace(*impl_->group, std::move(shared));
  }
  const auto finish_others = [&] {
    if (plain) plain->finish();
    impl_->add_residual_rate();
  };
  // What a prior is to learn, the rate says.
  const bool priors = impl_->has_priors();
  if (priors) finish_others();
  for (std::size_t b = 0; b < impl_->banks.size(); ++b) {
    Bank& bank = impl_->banks[b];
    std::vector<at::Tensor> alive;
    if (impl_->owned[b]) {
      impl_->owned[b]->backward(*impl_->kernel, span_of(bank.theta), impl_->sources(b, 1, alive),
                                span_of(bank.grad));
      continue;
    }
    impl_->kernel->backward(bank.shape, span_of(bank.theta), impl_->sources(b, average, alive),
                            span_of(bank.grad));
    // Travels while the next bank is computed.
    if (impl_->group) sums.push_back(impl_->group->all_reduce(bank.grad.view(-1)));
  }
  for (Pending& sum : sums) sum.wait();
  if (!priors) finish_others();
  impl_->add_gnet_rate();
  for (std::size_t b = 0; b < impl_->banks.size(); ++b) impl_->check_finite(b);
}

void GenomicBottleneck::backward_alike() {
  if (impl_->has_priors()) impl_->residual.latents.fit_priors();
  for (std::size_t b = 0; b < impl_->banks.size(); ++b) {
    Bank& bank = impl_->banks[b];
    std::vector<at::Tensor> alive;
    const std::vector<TileSource> all = impl_->sources(b, 1, alive);
    const auto& tiles = impl_->owned[b];
    const std::int64_t first = tiles ? tiles->first() : 0;
    const std::int64_t count = tiles ? tiles->count() : bank.theta.size(0);
    impl_->kernel->backward(
        bank.shape, span_of(bank.theta.narrow(0, first, count)),
        std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        span_of(bank.grad.narrow(0, first, count)));
    impl_->check_finite(b);
  }
  impl_->add_gnet_rate();
}

void GenomicBottleneck::Impl::check_finite(std::size_t bank) const {
  // A gradient that is not finite shows in the g-nets' own, which are far fewer.
  if (at::isfinite(banks[bank].grad.sum()).item<bool>()) return;
  for (std::size_t l : banks[bank].layers)
    if (!at::isfinite(layers[l].grad).all().item<bool>())
      throw Error(Errc::kNonFinite, "the gradient of " + printable(layers[l].name) +
                                        " is not finite at step " +
                                        std::to_string(gnet_optimizer->steps() + 1) +
                                        "; lower the learning rate (optim.lr)");
}

void GenomicBottleneck::step(double lr_factor) {
  std::vector<at::Tensor> own;
  for (std::size_t b = 0; b < impl_->banks.size(); ++b) {
    const auto& tiles = impl_->owned[b];
    const at::Tensor& grad = impl_->banks[b].grad;
    own.push_back(impl_->coded_gnets ? at::Tensor()
                  : tiles            ? grad.narrow(0, tiles->first(), tiles->count())
                                     : grad);
  }
  impl_->gnet_optimizer->step(own, lr_factor);
  std::vector<at::Tensor> gradients;
  for (std::size_t t : impl_->plain) gradients.push_back(impl_->tensors[t].tensor.grad());
  impl_->plain_optimizer->step(gradients, lr_factor);
  for (Impl::Coded* coded : {&impl_->residual, &impl_->gnets})
    coded->optimizer->step(coded->latents.gradients(), lr_factor);
}

void GenomicBottleneck::train(bool on) { impl_->training = on; }

void GenomicBottleneck::reset_optimizers() { impl_->make_optimizers(); }

const std::vector<GenomicBottleneck::Layer>& GenomicBottleneck::layers() const {
  return impl_->layers;
}
const std::vector<NamedParameter>& GenomicBottleneck::tensors() const { return impl_->tensors; }

}  // namespace gbcompress
