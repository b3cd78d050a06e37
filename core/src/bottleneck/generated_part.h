#pragma once
/// The g-nets of a bottleneck: specifications, banks, and the ways between tiles and parameters.

#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "gbcompress/bottleneck.h"
#include "gnet/bank.h"

namespace gbcompress {

/// Where a layer's generated values go, beside its parameter.
struct Route {
  const GNetType* type = nullptr;
  std::size_t tensor = 0;  ///< index into the bottleneck's tensors
  std::size_t bank = 0;
  std::int64_t first = 0;  ///< its first g-net in the bank
  bool custom = false;     ///< the type's own build() stands between tiles and parameter
  std::size_t block = 0;  ///< index into the g-nets' latents of its first block, where coded
  /// Values of tiles (custom) or of the whole tensor (not float32 or not contiguous); undefined
  /// where the kernel writes straight into the parameter.
  at::Tensor staging;
  at::Tensor built;                   ///< custom: the result of build(), with its graph
  std::optional<RandomStream> noise;  ///< of the weights that were drawn last
};

/// G-nets of one layer that this rank steps: rows [first, first + count) of the bank.
struct Piece {
  std::size_t bank = 0, layer = 0;
  std::int64_t first = 0, count = 0;

  /// @param rows  [g-nets of the bank, ...]
  at::Tensor of(const at::Tensor& rows) const { return rows.narrow(0, first, count); }
};

struct GeneratedPart {
  explicit GeneratedPart(std::unique_ptr<TileKernel> computing) : kernel(std::move(computing)) {}

  /// Layers, routes and banks, with fresh g-nets.
  void assign(const std::vector<NamedParameter>& tensors, const Registry& types,
              const BottleneckOptions& options);
  /// Buffers of zeros for all banks, each with its layers in the order of Bank::layers.
  void lay_out();
  bool any_idle() const;
  /// @throws Error(kNonFinite) naming the parameter whose gradient is not finite
  void check_finite(std::size_t bank) const;

  std::unique_ptr<TileKernel> kernel;
  std::unique_ptr<TileKernel> exact_kernel;  ///< of what files expand to; made when it is needed
  std::vector<GeneratedLayer> layers;
  std::vector<Route> routes;  ///< one a layer
  std::vector<Bank> banks;
  at::Tensor theta, grad;            ///< one buffer over all banks
  std::unique_ptr<AdamW> optimizer;  ///< of what this rank steps: one parameter a piece
  std::vector<Piece> pieces;
  std::int64_t steps = 0;  ///< of g-nets that are no integers
  /// Layers whose weights had no gradient in this step, so that their g-nets stay as they are; and
  /// how often that was. One a layer, the same on every rank.
  std::vector<bool> idle;
  std::vector<std::int64_t> delays;
};

}  // namespace gbcompress
