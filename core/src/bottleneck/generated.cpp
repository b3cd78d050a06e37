// G-nets: who makes what, weights out of them, gradients back into them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "bottleneck/impl.h"
#include "bottleneck/parameter_gnets.h"
#include "gbcompress/error.h"
#include "gnet/threaded_kernels.h"
#include "gnet/tile_memory.h"

namespace gbcompress {

void GeneratedPart::assign(const std::vector<NamedParameter>& tensors, const Registry& types,
                           const BottleneckOptions& options) {
  std::map<std::string, std::size_t> by_key;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto spec = spec_of(tensors[t], types, options);
    if (!spec) continue;
    const auto [entry, added] = by_key.try_emplace(bank_key(*spec), banks.size());
    if (added) banks.push_back({bank_shape(*spec), {}, {}, {}});
    banks[entry->second].layers.push_back(layers.size());
    Route route;
    route.type = &types.require(spec->type_id, spec->type_revision);
    route.tensor = t;
    route.bank = entry->second;
    route.custom = route.type->supports("custom-build") != 0;
    routes.push_back(std::move(route));
    layers.push_back({tensors[t].info.name,
                      spec->type_id,
                      *spec,
                      {},
                      {},
                      tensors[t].tensor,
                      tensors[t].tensor.detach().clone()});
  }

  lay_out();
  for (const Bank& bank : banks)
    for (std::size_t l : bank.layers) {
      const GeneratedLayer& layer = layers[l];
      initialise_gnets(bank.shape, options.seed, layer.name, layer.theta);
      if (routes[l].custom)
        routes[l].staging = at::zeros({layer.spec.grid().tiles(), bank.shape.tile_rows,
                                       bank.shape.tile_cols, bank.shape.kernel},
                                      at::kFloat);
      else if (layer.weights.scalar_type() != at::kFloat || !layer.weights.is_contiguous() ||
               !layer.weights.device().is_cpu())
        routes[l].staging = at::zeros(layer.weights.sizes(), at::kFloat);
    }
}

void GeneratedPart::lay_out() {
  std::int64_t total = 0;
  for (const GeneratedLayer& layer : layers) total += spec_parameters(layer.spec);
  theta = at::zeros({total}, at::kFloat);
  grad = at::zeros({total}, at::kFloat);
  std::int64_t offset = 0;
  for (Bank& bank : banks) {
    const std::int64_t parameters = bank.shape.parameters();
    std::int64_t tiles = 0;
    for (std::size_t l : bank.layers) {
      routes[l].first = tiles;
      tiles += layers[l].spec.grid().tiles();
    }
    bank.theta = theta.narrow(0, offset, tiles * parameters).view({tiles, parameters});
    bank.grad = grad.narrow(0, offset, tiles * parameters).view({tiles, parameters});
    offset += tiles * parameters;
    for (std::size_t l : bank.layers) {
      GeneratedLayer& layer = layers[l];
      const std::int64_t count = layer.spec.grid().tiles();
      layer.theta = bank.theta.narrow(0, routes[l].first, count);
      layer.grad = bank.grad.narrow(0, routes[l].first, count);
    }
  }
}

bool GeneratedPart::any_idle() const {
  return std::find(idle.begin(), idle.end(), true) != idle.end();
}

void GeneratedPart::check_finite(std::size_t bank) const {
  // A gradient that is not finite shows in the g-nets' own, which are far fewer.
  if (at::isfinite(banks[bank].grad.sum()).item<bool>()) return;
  for (std::size_t l : banks[bank].layers)
    if (!at::isfinite(layers[l].grad).all().item<bool>())
      throw Error(Errc::kNonFinite, "the gradient of " + printable(layers[l].name) +
                                        " is not finite at step " + std::to_string(steps + 1) +
                                        "; lower the learning rate (optim.lr)");
}

/// New numbers for every stochastic layer, keyed by layer and step: whoever computes a tile, and in
/// whatever order, draws the same.
void GenomicBottleneck::Impl::draw_noise() {
  const auto step = static_cast<std::uint64_t>(integers.of_gnets ? integers.gnets.optimizer->steps()
                                                                 : generated.steps);
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    generated.routes[l].noise.reset();
    if (training && !exact() && generated.layers[l].spec.generator == Generator::kStochastic)
      generated.routes[l].noise.emplace(options.seed, "weights", generated.layers[l].name, step);
  }
}

std::vector<TileTarget> GenomicBottleneck::Impl::targets(std::size_t bank) {
  std::vector<TileTarget> result;
  for (std::size_t l : generated.banks[bank].layers) {
    const Layer& layer = generated.layers[l];
    const Route& route = generated.routes[l];
    const TileGrid grid = layer.spec.grid();
    const at::Tensor& to = route.staging.defined() ? route.staging : layer.weights;
    append_tiles(result, grid, to.data_ptr<float>(), route.custom, layer.spec.output_scale,
                 route.noise ? &*route.noise : nullptr);
  }
  return result;
}

void GenomicBottleneck::Impl::predict(bool own_only) {
  const at::NoGradGuard no_grad;
  draw_noise();
  integers.gnets.latents.predict();
  if (exact() && !generated.exact_kernel) generated.exact_kernel = make_exact_kernel();
  const TileKernel& computing = exact() ? *generated.exact_kernel : *generated.kernel;
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    const Bank& bank = generated.banks[b];
    const std::vector<TileTarget> to = targets(b);
    const OwnRows own = own_rows(b);
    if (ranks.owned[b] && !own_only)
      ranks.owned[b]->forward(computing, span_of(bank.theta), to);
    else
      computing.forward(bank.shape, span_of(own.of(bank.theta)), own.of(to));
  }
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    if (own_only && !makes(l)) continue;
    Route& route = generated.routes[l];
    at::Tensor weights = generated.layers[l].weights;
    if (route.custom) {
      const at::AutoGradMode with_grad(true);
      const at::Tensor tiles = route.staging.detach().requires_grad_();
      route.built = route.type->build(generated.layers[l].spec, tiles,
                                      tensors[route.tensor].info.shape, generated.layers[l].name);
      route.staging = tiles;
    }
    if (route.staging.defined())
      weights.copy_(route.custom ? route.built.detach() : route.staging);
    else
      weights.unsafeGetTensorImpl()->bump_version();  // autograd must notice the kernel's writes
  }
  integers.quantized.latents.predict();
  if (!exact()) return;
  // A file may hold fewer bits of a number than the model computes with.
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const at::ScalarType stored = to_scalar_type(tensors[t].info.dtype);
    if (stored != types[t] && tensors[t].trainable)
      tensors[t].tensor.detach().copy_(tensors[t].tensor.detach().to(stored));
  }
}

at::Tensor GenomicBottleneck::Impl::gradient_of(Route& route, const at::Tensor& weights) {
  at::Tensor gradient = weights.grad();
  if (!gradient.defined()) gradient = at::zeros(weights.sizes(), at::kFloat);
  gradient = gradient.to(at::kCPU, at::kFloat);
  if (route.custom) {
    if (!route.built.defined())
      throw Error(Errc::kUsage, "backward() was called before predict_weights()");
    gradient = route.type->build_gradient(route.built, route.staging, gradient,
                                          tensors[route.tensor].info.name);
  }
  return gradient.to(at::kFloat).contiguous();
}

std::vector<TileSource> GenomicBottleneck::Impl::sources(std::size_t b, float factor,
                                                         std::vector<at::Tensor>& alive,
                                                         bool own_only) {
  std::vector<TileSource> result;
  for (std::size_t l : generated.banks[b].layers) {
    if (own_only && !makes(l)) continue;
    const Layer& layer = generated.layers[l];
    Route& route = generated.routes[l];
    const TileGrid grid = layer.spec.grid();
    // The rate's gradient is added to that of coded g-nets, which must be the loss's own.
    const float scale = integers.of_gnets ? layer.spec.output_scale : gradient_scale(layer.spec);
    alive.push_back(gradient_of(route, layer.weights));
    const float* data = alive.back().data_ptr<float>();
    append_tiles(result, grid, data, route.custom, scale * factor,
                 route.noise ? &*route.noise : nullptr);
  }
  return result;
}

void GenomicBottleneck::Impl::backward_own_tiles() {
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    Bank& bank = generated.banks[b];
    std::vector<at::Tensor> alive;
    const std::vector<TileSource> from = sources(b, 1, alive, ranks.with_layers);
    const OwnRows own = own_rows(b);
    generated.kernel->backward(bank.shape, span_of(own.of(bank.theta)),
                               ranks.with_layers ? std::span(from) : own.of(from),
                               span_of(own.of(bank.grad)));
    generated.check_finite(b);
  }
  add_gnet_rate();
}

}  // namespace gbcompress
