#pragma once
/// What a bottleneck holds.

#include <optional>

#include "base/random.h"
#include "gbcompress/bottleneck.h"
#include "gnet/bank.h"

namespace gbcompress {

struct GenomicBottleneck::Impl {
  Impl(std::vector<NamedParameter> tensors, const Registry& types,
       const BottleneckOptions& options);

  /// Where a layer's generated values go, beside its parameter.
  struct Route {
    const GNetType* type = nullptr;
    std::size_t tensor = 0;   ///< index into `tensors`
    std::size_t bank = 0;
    std::int64_t first = 0;   ///< its first g-net in the bank
    bool custom = false;      ///< the type's own build() stands between tiles and parameter
    /// Values of tiles (custom) or of the whole tensor (not float32 or not contiguous); undefined
    /// where the kernel writes straight into the parameter.
    at::Tensor staging;
    at::Tensor built;         ///< custom: the result of build(), with its graph
    std::optional<RandomStream> noise;  ///< of the weights that were drawn last
  };

  void make_routes(const Registry& types);
  void make_optimizers();
  std::vector<TileTarget> targets(std::size_t bank);
  void draw_noise();
  void check_finite(std::size_t bank) const;

  BottleneckOptions options;
  std::unique_ptr<TileKernel> kernel;
  std::vector<NamedParameter> tensors;
  std::vector<Layer> layers;
  std::vector<Route> routes;  ///< one a layer
  std::vector<Bank> banks;
  at::Tensor theta, grad;     ///< one buffer over all banks
  std::unique_ptr<AdamW> gnet_optimizer;
  std::unique_ptr<AdamW> plain_optimizer;  ///< of `plain`
  std::vector<std::size_t> plain;          ///< trainable tensors that no g-net makes
  bool training = true;
};

}  // namespace gbcompress
