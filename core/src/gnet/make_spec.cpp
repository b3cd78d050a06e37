#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "gbcompress/error.h"
#include "gbcompress/gnet.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

void check_options(const GNetOptions& options) {
  if (options.ratio && !(std::isfinite(*options.ratio) && *options.ratio > 0))
    throw Error(Errc::kUsage, "a ratio of " + std::to_string(*options.ratio) +
                                  " weights per g-net parameter is not possible; give a number "
                                  "above 0");
  if (!options.ratio && options.tile_weights < 1)
    throw Error(Errc::kUsage, "a tile of " + std::to_string(options.tile_weights) +
                                  " weights is not possible; give 1 or more");
  if (is_product(options.generator)) {
    if (options.rank < 0 || options.rank > 65'536)
      throw Error(Errc::kUsage, "a rank of " + std::to_string(options.rank) +
                                    " is not possible; give 1 to 65536, or 0 with a ratio");
    if (options.rank == 0 && !options.ratio)
      throw Error(Errc::kUsage,
                  "a rank of 0 follows from the ratio, and there is none; give a ratio, or a rank "
                  "of 1 to 65536");
    return;
  }
  if (options.hidden.empty() || options.hidden.size() > 8)
    throw Error(Errc::kUsage, "a g-net of " + std::to_string(options.hidden.size()) +
                                  " hidden layers is not possible; give 1 to 8 widths");
  for (std::int64_t width : options.hidden)
    if (width < 1 || width > 65'536)
      throw Error(Errc::kUsage, "a hidden layer of width " + std::to_string(width) +
                                    " is not possible; give 1 to 65536");
}

/// An axis that is an image is never cut.
void set_side(GNetSpec& spec, const MatrixSides& sides, std::int64_t side) {
  const auto along = [side](const AxisCode& code, std::int64_t axis) {
    return code.encoding == Encoding::kPixel ? axis : std::min(side, axis);
  };
  spec.tile_rows = along(spec.row_code, sides.rows);
  spec.tile_cols = along(spec.col_code, sides.cols);
}

/// The side of about square tiles; where one axis is not cut, the other makes up for it.
std::int64_t side_for(const GNetSpec& spec, const MatrixSides& sides, std::int64_t tile_weights) {
  const double weights = static_cast<double>(tile_weights) / static_cast<double>(sides.kernel);
  const bool rows = spec.row_code.encoding == Encoding::kPixel;
  const bool cols = spec.col_code.encoding == Encoding::kPixel;
  const double side = rows != cols ? weights / static_cast<double>(rows ? sides.rows : sides.cols)
                                   : std::ceil(std::sqrt(weights));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(side));
}

/// The next tile side along one axis at which the number of tiles or the code's width changes.
std::int64_t next_change(const GNetSpec& spec, const AxisCode& code, std::int64_t axis,
                         std::int64_t side) {
  if (side >= axis || code.encoding == Encoding::kPixel) return kNever;
  if (is_product(spec.generator) || code.encoding == Encoding::kOneHot ||
      code.encoding == Encoding::kLatent)
    return side + 1;
  const std::int64_t tiles = (axis - 1) / side;  // ceil(axis / side) - 1, and at least 1 here
  const std::int64_t fewer_tiles = (axis - 1) / tiles + 1;
  std::int64_t wider = 2;
  while (wider < side) wider *= 2;  // the code keeps its width up to this side
  return std::min({fewer_tiles, wider + 1, axis});
}

/// Sets the smallest side whose ratio reaches the target, or the one with the largest ratio. Only
/// sides where the parameter count changes are visited; all others repeat the one before.
void solve_side(GNetSpec& spec, const MatrixSides& sides, double target) {
  std::int64_t best = 0;
  double best_ratio = 0;
  const std::int64_t last = std::max(sides.rows, sides.cols);
  for (std::int64_t side = 1; side <= last;) {
    set_side(spec, sides, side);
    double ratio = 0;
    try {
      validate(spec);
      ratio =
          static_cast<double>(spec.grid().elements()) / static_cast<double>(spec_parameters(spec));
    } catch (const Error& error) {
      // Codes and tables only grow with the side: no larger one fits either.
      if (error.code() != Errc::kLimit) throw;
      if (best > 0) break;
    }
    if (ratio > best_ratio) {
      best = side;
      best_ratio = ratio;
    }
    if (best_ratio >= target) break;
    const std::int64_t next = std::min(next_change(spec, spec.row_code, sides.rows, side),
                                       next_change(spec, spec.col_code, sides.cols, side));
    if (next == kNever) break;
    side = next;
  }
  set_side(spec, sides, std::max<std::int64_t>(best, 1));
}

/// Of a product that makes a whole matrix. In a matrix of kRankSide x kRankSide the ratio is exact;
/// with the shorter side the rank falls by its fourth root alone, because a layer of few outputs
/// loses more by a low rank than it saves bytes.
std::int64_t rank_for(const MatrixSides& sides, double ratio) {
  constexpr double kRankSide = 256;
  const auto shorter = static_cast<double>(std::min(sides.rows, sides.cols * sides.kernel));
  const double rank = kRankSide / (2 * ratio) * std::pow(shorter / kRankSide, 0.25);
  return static_cast<std::int64_t>(
      std::clamp(std::nearbyint(rank), 1.0, std::min(shorter, 65'536.0)));
}

float output_scale(const ParameterInfo& parameter) {
  const auto scale = static_cast<float>(2 * parameter.std);
  if (!std::isfinite(scale) || !(parameter.std >= 0))
    throw Error(Errc::kNonFinite, "the standard deviation of " + printable(parameter.name) +
                                      " is not a finite number; check its values for NaN");
  return scale == 0 ? 1 : scale;
}

}  // namespace

GNetSpec make_spec(const ParameterInfo& parameter, const MatrixView& view,
                   const GNetOptions& options) {
  check_options(options);
  const MatrixSides sides = matrix_sides(parameter.shape, view);
  GNetSpec spec;
  spec.shape = parameter.shape;
  spec.view = view;
  spec.generator = options.generator;
  spec.kernel_codes.assign(sides.kernel_dims.size(), Encoding::kOneHot);
  if (is_product(spec.generator)) {
    spec.hidden.clear();
    spec.rank = options.rank > 0 ? options.rank : rank_for(sides, *options.ratio);
  } else {
    spec.hidden = options.hidden;
    spec.row_code = options.row_code.value_or(Encoding::kBinary);
    spec.col_code = options.col_code.value_or(Encoding::kBinary);
  }
  spec.output_scale = output_scale(parameter);
  if (is_product(spec.generator) && options.rank == 0) {
    set_side(spec, sides, std::max(sides.rows, sides.cols));
  } else if (options.ratio) {
    solve_side(spec, sides, *options.ratio);
  } else {
    set_side(spec, sides, side_for(spec, sides, options.tile_weights));
  }
  validate(spec);
  return spec;
}

}  // namespace gbcompress
