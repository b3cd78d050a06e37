#pragma once
/// Plain data: what a layer type asks for one parameter. A plan is stored in the artifact, so that
/// a file can be inspected without any plugin.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/dtype.h"
#include "gbcompress/encoding.h"
#include "gbcompress/tile_grid.h"

namespace gbcompress {

/// What a layer type is told about a parameter.
struct ParameterInfo {
  std::string name;         ///< full name, "layer1.0.conv1.weight"
  std::string local_name;   ///< inside its module, "weight"
  std::string module_path;  ///< "layer1.0.conv1"
  std::string module_type;  ///< "Conv2d": namespace and "Impl" removed; "" where unknown
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;
  double std = 0;           ///< standard deviation (n - 1) of the initial values; 0 below 2 values

  std::int64_t elements() const noexcept;
};

/// What the user asks of a layer type. Unset values are the layer type's to choose.
struct GNetOptions {
  /// Weights of one tile, at least 1. torchGB's default.
  std::int64_t tile_weights = 10'000;
  /// Weights per g-net parameter, > 0. When set it replaces tile_weights: the tile side is solved
  /// from the exact parameter count of the g-net.
  std::optional<double> ratio;
  /// Widths of the hidden layers, each 1 to 65,536, 1 to 8 layers.
  std::vector<std::int64_t> hidden = {32};
  std::optional<Encoding> row_code, col_code, kernel_code;
};

/// How one parameter is generated.
struct GNetPlan {
  std::string type_id;               ///< set by the host: "linear", "conv", ...
  std::uint32_t type_revision = 1;   ///< set by the host
  /// Shape of what the tiles form together: the parameter's own, unless the layer type builds the
  /// parameter from something else (half of a symmetric matrix, say).
  std::vector<std::int64_t> shape;
  MatrixView view;
  std::int64_t tile_rows = 1;
  std::int64_t tile_cols = 1;
  Encoding row_code = Encoding::kBinary;
  Encoding col_code = Encoding::kBinary;
  std::vector<Encoding> kernel_codes;  ///< one for each kernel dimension
  std::vector<std::int64_t> hidden = {32};
  /// The g-net's output is multiplied by this: 2 * std of the initial weights in torchGB.
  float output_scale = 1;

  TileGrid grid() const { return TileGrid(shape, view, tile_rows, tile_cols); }
  bool operator==(const GNetPlan&) const = default;
};

/// Checks every bound of a plan, of whatever origin: ranks, sides, widths, finite scale, at most
/// 2^20 inputs and 2^28 parameters a g-net.
/// @throws Error(kShapeMismatch) or Error(kLimit) with a sentence that names the field
void validate(const GNetPlan& plan);

/// Inputs of each g-net: the widths of the row, column and kernel codes together.
std::int64_t gnet_inputs(const GNetPlan& plan);
/// Exact parameter count of ONE g-net, `inputs -> hidden... -> 1`, weights and biases.
std::int64_t gnet_parameters(const GNetPlan& plan);
/// Parameters of all g-nets of the plan: tiles * gnet_parameters.
std::int64_t plan_parameters(const GNetPlan& plan);

/// The common way to fill a plan: the output scale 2 * std, the tile side from tile_weights
/// (ceil(sqrt(tile_weights / kernel)), never beyond the matrix) or solved from `ratio`, codes as
/// asked, else binary for rows and columns and one-hot for kernel axes.
/// @throws Error(kUsage) on options out of range
GNetPlan make_plan(const ParameterInfo& parameter, const MatrixView& view,
                   const GNetOptions& options);

}  // namespace gbcompress
