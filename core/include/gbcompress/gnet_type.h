#pragma once
/// A layer type: how the parameters of one kind of module are cut into tiles and put together
/// again. LibTorch's class is only named.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/gnet.h"
#include "gbcompress/version.h"

namespace GBC_API at {
class Tensor;
}

namespace GBC_API gbcompress {

/// Stateless; one object serves all parameters of its kind. [thread-safe]
class GNetType {
 public:
  virtual ~GNetType();

  /// Stored in artifacts and never renamed: "linear", "conv". 1 to 64 of [a-z0-9_.-].
  virtual std::string_view id() const noexcept = 0;
  /// Raised when specification or build changes so that old artifacts need the old code.
  virtual std::uint32_t revision() const noexcept { return 1; }
  /// Module type names this type claims, as ParameterInfo::module_type spells them. No other type
  /// may claim the same.
  virtual std::vector<std::string> modules() const = 0;
  /// Optional abilities by name; unknown names are 0, so that new names break no compiled plugin.
  ///   "custom-build"      build() does more than placing the tiles
  ///   "unused-positions"  some positions of uncropped tiles do not reach the result
  ///   "revision-N"        build() also takes specifications of its older revision N
  ///   "only-by-rule"      parameters are generated only where a [[layer]] rule names the type
  virtual int supports(std::string_view ability) const noexcept;

  /// The specification for a parameter of a claimed module, or nothing: the parameter then stays
  /// plain. Pure: the same arguments give the same specification.
  /// @throws Error(kPluginFailed) naming plugin, id and parameter: the type throws, or its
  ///         specification is not valid, or of another shape than the parameter although it has no
  ///         "custom-build". Errors about options and values, as make_spec() has them, pass
  ///         unchanged
  std::optional<GNetSpec> spec(const ParameterInfo& parameter, const GNetOptions& options) const;

  /// The parameter's value from its tiles; differentiable by autograd.
  /// @param tiles  [tiles, tile_rows, tile_cols, kernel] float32
  /// @param shape  the parameter's own shape, and so the result's
  /// @param name   the parameter's full name, for messages
  /// @throws Error(kShapeMismatch) where tiles have another shape; Error(kPluginFailed) naming
  /// plugin,
  ///         id and parameter: the type throws, changes its tiles, or its result is not a float32
  ///         tensor of that shape on the CPU, does not lead back to tiles that want gradients, or
  ///         is NaN or infinite although the tiles are finite
  at::Tensor build(const GNetSpec& spec, const at::Tensor& tiles,
                   const std::vector<std::int64_t>& shape, const std::string& name) const;
  /// The gradient with regard to the tiles of what build() made of them; the graph is kept.
  /// @param gradient  float32 of the parameter's shape
  /// @throws Error(kPluginFailed) as build(): autograd throws, or the result is NaN or infinite
  ///         although `gradient` is finite
  at::Tensor build_gradient(const at::Tensor& built, const at::Tensor& tiles,
                            const at::Tensor& gradient, const std::string& name) const;

 private:
  friend class StagingRegistrar;
  virtual std::optional<GNetSpec> spec_impl(const ParameterInfo& parameter,
                                            const GNetOptions& options) const = 0;
  /// Unless overridden: place_tiles(spec, tiles).
  virtual at::Tensor build_impl(const GNetSpec& spec, const at::Tensor& tiles) const;

  std::string origin_;  // "plugin FILE", set when it is registered
};

/// Puts tiles [tiles, tile_rows, tile_cols, kernel] together as the specification says, to
/// spec.shape. Differentiable; cropped positions are dropped. The result is contiguous.
/// @throws Error(kShapeMismatch)
at::Tensor place_tiles(const GNetSpec& spec, const at::Tensor& tiles);

using SpecFunction =
    std::function<std::optional<GNetSpec>(const ParameterInfo&, const GNetOptions&)>;
using BuildFunction = std::function<at::Tensor(const GNetSpec&, const at::Tensor& tiles)>;

}  // namespace gbcompress
