#include "gbcompress/gnet_plan.h"

#include <cmath>
#include <string>

#include "base/checked.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxWidth = 65'536;
constexpr std::int64_t kMaxInputs = std::int64_t{1} << 20;
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 28;
/// Floats of working memory: code tables, and the first layer's products with them.
constexpr std::int64_t kMaxTable = std::int64_t{1} << 26;

[[noreturn]] void too_large(const std::string& what, std::int64_t most) {
  throw Error(Errc::kLimit, what + "; at most " + std::to_string(most) + " are allowed");
}

void validate_names(const GNetPlan& plan) {
  bool good = plan.type_id.size() <= 64;
  for (char c : plan.type_id)
    good = good &&
           ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-');
  if (!good)
    throw Error(Errc::kShapeMismatch,
                "type_id is not a name of up to 64 lower-case letters, digits, '_', '.', '-'");
  for (Encoding code : {plan.row_code, plan.col_code})
    if (encoding_name(code).empty())
      throw Error(Errc::kShapeMismatch, "row_code or col_code is not an encoding");
  for (Encoding code : plan.kernel_codes)
    if (encoding_name(code).empty())
      throw Error(Errc::kShapeMismatch, "kernel_codes names an unknown encoding");
}

void validate_hidden(const std::vector<std::int64_t>& hidden) {
  if (hidden.empty())
    throw Error(Errc::kShapeMismatch, "hidden names no layer; at least 1 is needed");
  if (hidden.size() > 8) too_large("hidden names " + std::to_string(hidden.size()) + " layers", 8);
  for (std::int64_t width : hidden) {
    if (width < 1)
      throw Error(Errc::kShapeMismatch, "hidden names a width of " + std::to_string(width));
    if (width > kMaxWidth) too_large("hidden names a width of " + std::to_string(width), kMaxWidth);
  }
}

/// @throws Error(kLimit) where the codes of a tile, or their products with the first layer, would
///         take more memory than the tile itself is worth
void validate_memory(const GNetPlan& plan, const MatrixSides& sides) {
  std::int64_t floats = 0;
  const auto add_axis = [&](std::int64_t count, std::int64_t width) {
    const char* what = "tile_rows, tile_cols or the kernel";
    floats = checked_add(
        floats, checked_mul(count, checked_add(width, plan.hidden.front(), what), what), what);
  };
  add_axis(plan.tile_rows, code_width(plan.row_code, plan.tile_rows));
  add_axis(plan.tile_cols, code_width(plan.col_code, plan.tile_cols));
  std::int64_t kernel_width = 0;
  for (std::size_t d = 0; d < sides.kernel_dims.size(); ++d)
    kernel_width += code_width(plan.kernel_codes[d], sides.kernel_dims[d]);
  if (kernel_width > 0) add_axis(sides.kernel, kernel_width);
  if (floats > kMaxTable)
    too_large("tile_rows, tile_cols and the kernel need " + std::to_string(floats) +
                  " numbers of position codes",
              kMaxTable);
}

std::int64_t parameters_of(std::int64_t inputs, const std::vector<std::int64_t>& hidden) {
  const char* what = "a g-net";
  std::int64_t total = 0;
  for (std::size_t layer = 0; layer <= hidden.size(); ++layer) {
    const std::int64_t outputs = layer < hidden.size() ? hidden[layer] : 1;
    total = checked_add(total, checked_mul(checked_add(inputs, 1, what), outputs, what), what);
    inputs = outputs;
  }
  return total;
}

}  // namespace

std::int64_t ParameterInfo::elements() const noexcept {
  std::int64_t n = 1;
  for (std::int64_t side : shape) n *= side;
  return n;
}

void validate(const GNetPlan& plan) {
  validate_names(plan);
  const TileGrid grid = plan.grid();
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  if (plan.kernel_codes.size() != sides.kernel_dims.size())
    throw Error(Errc::kShapeMismatch,
                "kernel_codes names " + std::to_string(plan.kernel_codes.size()) + " codes for " +
                    std::to_string(sides.kernel_dims.size()) + " kernel dimensions");
  validate_hidden(plan.hidden);
  if (!std::isfinite(plan.output_scale))
    throw Error(Errc::kShapeMismatch, "output_scale is not a finite number");
  const std::int64_t inputs = gnet_inputs(plan);
  if (inputs > kMaxInputs)
    too_large("the position codes have " + std::to_string(inputs) + " inputs", kMaxInputs);
  const std::int64_t parameters = gnet_parameters(plan);
  if (parameters > kMaxParameters)
    too_large("a g-net has " + std::to_string(parameters) + " parameters", kMaxParameters);
  validate_memory(plan, sides);
  // The codes are normalised by counts that must be exact in double.
  constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
  if (checked_mul(grid.positions(), inputs, "a tile times its inputs") > kMaxCount)
    too_large("tile_rows times tile_cols times the inputs are too many", kMaxCount);
  plan_parameters(plan);
}

std::int64_t gnet_inputs(const GNetPlan& plan) {
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  std::int64_t inputs =
      checked_add(code_width(plan.row_code, plan.tile_rows),
                  code_width(plan.col_code, plan.tile_cols), "the position codes");
  if (plan.kernel_codes.size() != sides.kernel_dims.size())
    throw Error(Errc::kShapeMismatch, "kernel_codes does not fit the kernel dimensions");
  for (std::size_t d = 0; d < sides.kernel_dims.size(); ++d)
    inputs = checked_add(inputs, code_width(plan.kernel_codes[d], sides.kernel_dims[d]),
                         "the position codes");
  return inputs;
}

std::int64_t gnet_parameters(const GNetPlan& plan) {
  return parameters_of(gnet_inputs(plan), plan.hidden);
}

std::int64_t plan_parameters(const GNetPlan& plan) {
  return checked_mul(plan.grid().tiles(), gnet_parameters(plan), "the g-nets of a tensor");
}

}  // namespace gbcompress
