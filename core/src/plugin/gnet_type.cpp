#include "gbcompress/registry.h"

#include <ATen/core/Tensor.h>

#include "gbcompress/error.h"

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
                                          ", the plan needs " + shape_text(wanted));
}

void check_plan(const GNetType& type, const GNetPlan& plan, const ParameterInfo& parameter) {
  const std::string who =
      "layer type " + std::string(type.id()) + ", " + printable(parameter.name) + ": ";
  try {
    validate(plan);
  } catch (const Error& error) {
    throw Error(error.code(), who + error.what());
  }
  if (plan.shape != parameter.shape && !type.supports("custom-build"))
    throw Error(Errc::kShapeMismatch, who + "the plan makes " + shape_text(plan.shape) +
                                          ", the parameter is " + shape_text(parameter.shape) +
                                          "; a type that builds it from something else must "
                                          "support custom-build");
}

}  // namespace

GNetType::~GNetType() = default;

int GNetType::supports(std::string_view) const noexcept { return 0; }

std::optional<GNetPlan> GNetType::plan(const ParameterInfo& parameter,
                                       const GNetOptions& options) const {
  auto result = plan_impl(parameter, options);
  if (!result) return std::nullopt;
  result->type_id = id();
  result->type_revision = revision();
  check_plan(*this, *result, parameter);
  return result;
}

at::Tensor GNetType::build(const GNetPlan& plan, const at::Tensor& tiles,
                           const std::vector<std::int64_t>& shape) const {
  check_tiles(plan.grid(), tiles);
  at::Tensor result = build_impl(plan, tiles);
  if (!result.defined() || result.sizes().vec() != shape)
    throw Error(Errc::kShapeMismatch,
                "layer type " + std::string(id()) + " built " +
                    (result.defined() ? shape_text(result.sizes()) : std::string("nothing")) +
                    " where the parameter is " + shape_text(shape));
  return result;
}

at::Tensor GNetType::build_impl(const GNetPlan& plan, const at::Tensor& tiles) const {
  return place_tiles(plan, tiles);
}

at::Tensor place_tiles(const GNetPlan& plan, const at::Tensor& tiles) {
  const TileGrid grid = plan.grid();
  check_tiles(grid, tiles);
  const std::int64_t row_splits = plan.view.row_splits, col_splits = plan.view.col_splits;
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
  if (plan.view.col_dim == 0) rows = rows.transpose(0, 1);
  return rows.reshape(plan.shape).contiguous();
}

}  // namespace gbcompress
