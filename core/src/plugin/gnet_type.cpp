#include "gbcompress/registry.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "gbcompress/error.h"
#include "plugin/plugin_call.h"

namespace gbcompress {
namespace {

template <typename Sides>
std::string shape_text(const Sides& sides) {
  std::string result = "[";
  for (std::int64_t side : sides) result += (result.size() > 1 ? ", " : "") + std::to_string(side);
  return result + "]";
}

void check_tiles(const TileGrid& grid, const at::Tensor& tiles) {
  if (!tiles.defined()) throw Error(Errc::kShapeMismatch, "the tiles are an undefined tensor");
  const std::vector<std::int64_t> wanted = {grid.tiles(), grid.tile_rows(), grid.tile_cols(),
                                            grid.kernel()};
  if (tiles.sizes().vec() != wanted)
    throw Error(Errc::kShapeMismatch, "the tiles have shape " + shape_text(tiles.sizes()) +
                                          ", the specification needs " + shape_text(wanted));
}

void check_spec(const PluginCall& call, const GNetSpec& spec, const GNetType& type,
                const ParameterInfo& parameter) {
  try {
    validate(spec);
  } catch (const Error& error) {
    plugin_failed(call,
                  std::string("returned a specification that cannot be used: ") + error.what());
  }
  if (spec.shape != parameter.shape && !type.supports("custom-build"))
    plugin_failed(call, "returned a specification of shape " + shape_text(spec.shape) +
                            " for a parameter of shape " + shape_text(parameter.shape) +
                            ", which only a type that supports custom-build may do");
}

bool all_finite(const at::Tensor& tensor) {
  // One pass; a sum may overflow, and then each element is looked at.
  return at::isfinite(tensor.sum()).item<bool>() || at::isfinite(tensor).all().item<bool>();
}

/// How often a tensor was written to, as far as LibTorch counts.
std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : tensor._version();
}

void check_built(const PluginCall& call, const at::Tensor& result, const at::Tensor& tiles,
                 const std::vector<std::int64_t>& shape) {
  if (!result.defined()) plugin_failed(call, "returned an undefined tensor");
  if (result.sizes().vec() != shape)
    plugin_failed(call, "returned shape " + shape_text(result.sizes()) +
                            ", the parameter has shape " + shape_text(shape));
  if (result.scalar_type() != at::kFloat || result.layout() != at::kStrided ||
      !result.device().is_cpu())
    plugin_failed(call, "returned a tensor of type " + result.toString() +
                            ", a dense float32 tensor on the CPU is needed");
  if (at::GradMode::is_enabled() && tiles.requires_grad() && !result.requires_grad())
    plugin_failed(call,
                  "returned a tensor that does not follow from its tiles by differentiable "
                  "operations, so that no gradient reaches the g-nets");
  const at::NoGradGuard no_grad;
  if (!all_finite(result) && all_finite(tiles))
    plugin_failed(call, "returned NaN or infinity, and its tiles are finite, at most " +
                            std::to_string(tiles.abs().max().item<float>()) + " in magnitude");
}

}  // namespace

GNetType::~GNetType() = default;

int GNetType::supports(std::string_view) const noexcept { return 0; }

std::optional<GNetSpec> GNetType::spec(const ParameterInfo& parameter,
                                       const GNetOptions& options) const {
  const PluginCall call{origin_, "layer type",   id(),
                        "init",  parameter.name, PassedErrors::kOfRequest};
  auto result = call_plugin(call, [&] { return spec_impl(parameter, options); });
  if (!result) return std::nullopt;
  result->type_id = id();
  result->type_revision = revision();
  check_spec(call, *result, *this, parameter);
  return result;
}

at::Tensor GNetType::build(const GNetSpec& spec, const at::Tensor& tiles,
                           const std::vector<std::int64_t>& shape, const std::string& name) const {
  check_tiles(spec.grid(), tiles);
  const PluginCall call{origin_, "layer type", id(), "build", name};
  const std::int64_t version = version_of(tiles);
  at::Tensor result = call_plugin(call, [&] { return build_impl(spec, tiles); });
  if (version_of(tiles) != version)
    plugin_failed(call, "changed its tiles, which it may only read");
  check_built(call, result, tiles, shape);
  return result;
}

at::Tensor GNetType::build_gradient(const at::Tensor& built, const at::Tensor& tiles,
                                    const at::Tensor& gradient, const std::string& name) const {
  const PluginCall call{origin_, "layer type", id(), "the gradient of build", name};
  const at::Tensor result = call_plugin(call, [&] {
    return torch::autograd::grad({built}, {tiles}, {gradient}, /*retain_graph=*/true)[0];
  });
  if (!all_finite(result) && all_finite(gradient))
    plugin_failed(call, "is NaN or infinite, and the gradient of the parameter is finite");
  return result;
}

at::Tensor GNetType::build_impl(const GNetSpec& spec, const at::Tensor& tiles) const {
  return place_tiles(spec, tiles);
}

at::Tensor place_tiles(const GNetSpec& spec, const at::Tensor& tiles) {
  const TileGrid grid = spec.grid();
  check_tiles(grid, tiles);
  const std::int64_t row_splits = spec.view.row_splits, col_splits = spec.view.col_splits;
  const std::int64_t tile_rows = grid.tile_rows(), tile_cols = grid.tile_cols();
  const std::int64_t grid_rows = (grid.rows() + tile_rows - 1) / tile_rows;
  const std::int64_t grid_cols = (grid.cols() + tile_cols - 1) / tile_cols;
  // [matrix row, matrix column, tile row, tile column, row, column, kernel] brought to
  // [matrix row, tile row, row, matrix column, tile column, column, kernel]: then rows of tiles and
  // their rows are one dimension, and what exceeds a matrix is its end.
  at::Tensor rows =
      tiles
          .reshape(
              {row_splits, col_splits, grid_rows, grid_cols, tile_rows, tile_cols, grid.kernel()})
          .permute({0, 2, 4, 1, 3, 5, 6})
          .reshape(
              {row_splits, grid_rows * tile_rows, col_splits, grid_cols * tile_cols, grid.kernel()})
          .narrow(1, 0, grid.rows())
          .narrow(3, 0, grid.cols())
          .reshape({row_splits * grid.rows(), col_splits * grid.cols(), grid.kernel()});
  if (spec.view.col_dim == 0) rows = rows.transpose(0, 1);
  return rows.reshape(spec.shape).contiguous();
}

}  // namespace gbcompress
