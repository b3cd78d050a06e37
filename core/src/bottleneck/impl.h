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
  void make_latents();
  /// Gradients of residual parameters become those of latents and steps.
  void add_rate();
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
  Latents latents;                   ///< of `coded`
  std::vector<std::size_t> coded;    ///< residual tensors
  std::unique_ptr<AdamW> residual_optimizer;
  double bit_price = 0;
  bool training = true;
  std::vector<std::optional<OwnedTiles>> owned;  ///< one a bank; nothing where it is replicated
  std::vector<std::string> notes;
};

}  // namespace gbcompress
