#pragma once
/// What a bottleneck holds.

#include <optional>

#include "base/random.h"
#include "bottleneck/exchange.h"
#include "bottleneck/placement.h"
#include "gbcompress/bottleneck.h"
#include "gnet/bank.h"
#include "rate/latents.h"

namespace gbcompress {

inline std::span<float> span_of(const at::Tensor& contiguous) {
  return {contiguous.data_ptr<float>(), static_cast<std::size_t>(contiguous.numel())};
}

struct GenomicBottleneck::Impl {
  Impl(std::vector<NamedParameter> tensors, const Registry& types, const BottleneckOptions& options,
       Group* group);

  /// Where a layer's generated values go, beside its parameter.
  struct Route {
    const GNetType* type = nullptr;
    std::size_t tensor = 0;  ///< index into `tensors`
    std::size_t bank = 0;
    std::int64_t first = 0;  ///< its first g-net in the bank
    bool custom = false;     ///< the type's own build() stands between tiles and parameter
    /// Index into `latents` of the parameter that the g-net is the prior of; nothing: it makes it.
    std::optional<std::size_t> prior;
    std::size_t block = 0;  ///< index into `gnets` of the first of its blocks, where they are coded
    /// Values of tiles (custom) or of the whole tensor (not float32 or not contiguous); undefined
    /// where the kernel writes straight into the parameter.
    at::Tensor staging;
    at::Tensor built;                   ///< custom: the result of build(), with its graph
    std::optional<RandomStream> noise;  ///< of the weights that were drawn last
  };

  void make_routes(const Registry& types);
  void place();
  PlacementCase measure(std::size_t bank, double bytes_per_second);
  void make_optimizers();
  std::vector<TileTarget> targets(std::size_t bank);
  /// @param alive  keeps gradients that had to be converted
  std::vector<TileSource> sources(std::size_t bank, float factor, std::vector<at::Tensor>& alive);
  void draw_noise();
  /// What the plain and the residual optimiser step, in their order.
  std::vector<std::string> stepped_names() const;
  /// The g-nets' moments over the whole buffer, whoever owns them [collective]; zeros; and back.
  AdamW::State whole_state() const;
  AdamW::State blank_state() const;
  void restore_own(const AdamW::State& whole);
  void check_finite(std::size_t bank) const;
  /// Numbers that are stored as integers while they train, and what steps them.
  struct Coded {
    Coded(std::uint64_t seed, double step_speed) : latents(seed, step_speed) {}
    /// Gradients of what is read become those of latents and steps.
    void backward(double bit_price, const char* setting);

    Latents latents;
    std::unique_ptr<AdamW> optimizer;
  };
  void make_latents();
  void make_gnet_latents();
  /// The gradient that the g-nets of a route follow, in the layout of its target.
  at::Tensor gradient_of(Route& route, const at::Tensor& weights);
  void add_residual_rate();
  void add_gnet_rate();
  /// The g-nets of a layer, and what is left of residual parameters, as a file holds them.
  void take_theta(std::size_t layer, const ArtifactReader& artifact, std::size_t stored);
  void take_residual(std::size_t entry, const CodedValues& values);
  bool has_priors() const;
  /// The integers of a layer's coded g-nets.
  CodedTheta coded_theta(std::size_t layer) const;
  /// Of trainable tensors that no g-net makes, and floating-point buffers.
  std::vector<at::Tensor> carried() const;
  std::vector<at::Tensor> carried_gradients();
  std::vector<at::Tensor> float_buffers() const;

  BottleneckOptions options;
  Group* group;
  std::unique_ptr<TileKernel> kernel;
  std::vector<NamedParameter> tensors;
  std::vector<Layer> layers;
  std::vector<Route> routes;  ///< one a layer
  std::vector<Bank> banks;
  at::Tensor theta, grad;  ///< one buffer over all banks
  std::unique_ptr<AdamW> gnet_optimizer;
  std::unique_ptr<AdamW> plain_optimizer;  ///< of `plain`
  std::vector<std::size_t> plain;          ///< trainable tensors that no g-net makes
  Coded residual;                          ///< of `coded`
  std::vector<std::size_t> coded;          ///< residual tensors
  Coded gnets;                             ///< blocks of all layers' g-nets, or nothing
  bool coded_gnets = false;
  double bit_price = 0;
  bool training = true;
  std::vector<std::optional<OwnedTiles>> owned;  ///< one a bank; nothing where it is replicated
  std::vector<std::string> notes;
};

}  // namespace gbcompress
