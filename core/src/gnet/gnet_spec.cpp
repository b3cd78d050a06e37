#include "gbcompress/gnet.h"

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

void validate_names(const GNetSpec& spec) {
  bool good = spec.type_id.size() <= 64;
  for (char c : spec.type_id)
    good = good &&
           ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-');
  if (!good)
    throw Error(Errc::kShapeMismatch,
                "type_id is not a name of up to 64 lower-case letters, digits, '_', '.', '-'");
}

/// code_width() of a specification's axis; a wrong option of a user is a specification that does
/// not fit.
std::int64_t axis_width(const AxisCode& code, std::int64_t n, const char* field) {
  try {
    return code_width(code, n);
  } catch (const Error& error) {
    throw Error(error.code() == Errc::kLimit ? Errc::kLimit : Errc::kShapeMismatch,
                std::string(field) + ": " + error.what());
  }
}

void validate_codes(const GNetSpec& spec, const MatrixSides& sides) {
  if (spec.kernel_codes.size() != sides.kernel_dims.size())
    throw Error(Errc::kShapeMismatch,
                "kernel_codes names " + std::to_string(spec.kernel_codes.size()) + " codes for " +
                    std::to_string(sides.kernel_dims.size()) + " kernel dimensions");
  axis_width(spec.row_code, spec.tile_rows, "row_code");
  axis_width(spec.col_code, spec.tile_cols, "col_code");
  for (std::size_t d = 0; d < sides.kernel_dims.size(); ++d) {
    axis_width(spec.kernel_codes[d], sides.kernel_dims[d], "kernel_codes");
    if (spec.kernel_codes[d].encoding == Encoding::kLatent)
      throw Error(Errc::kShapeMismatch, "kernel_codes: a kernel axis cannot have a latent code");
  }
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

/// A product has no codes and no layers; what it does not use keeps its default, so that equal
/// specifications compare as equal.
void validate_product(const GNetSpec& spec, const MatrixSides& sides) {
  if (!spec.hidden.empty())
    throw Error(Errc::kShapeMismatch, "hidden names layers, but a product of matrices has none");
  if (spec.rank < 1)
    throw Error(Errc::kShapeMismatch, "rank is " + std::to_string(spec.rank) + "; at least 1");
  if (spec.rank > kMaxWidth) too_large("rank is " + std::to_string(spec.rank), kMaxWidth);
  const std::vector<AxisCode> usual(sides.kernel_dims.size(), Encoding::kOneHot);
  if (spec.row_code != AxisCode() || spec.col_code != AxisCode() || spec.kernel_codes != usual)
    throw Error(Errc::kShapeMismatch,
                "row_code, col_code or kernel_codes is set, but a product of "
                "matrices has no position codes");
}

/// @throws Error(kLimit) where the codes of a tile, or their products with the first layer, would
///         take more memory than the tile itself is worth
void validate_memory(const GNetSpec& spec, const MatrixSides& sides) {
  std::int64_t floats = 0;
  const auto add_axis = [&](std::int64_t count, std::int64_t width) {
    const char* what = "tile_rows, tile_cols or the kernel";
    floats = checked_add(
        floats, checked_mul(count, checked_add(width, spec.hidden.front(), what), what), what);
  };
  add_axis(spec.tile_rows, code_width(spec.row_code, spec.tile_rows));
  add_axis(spec.tile_cols, code_width(spec.col_code, spec.tile_cols));
  std::int64_t kernel_width = 0;
  for (std::size_t d = 0; d < sides.kernel_dims.size(); ++d)
    kernel_width += code_width(spec.kernel_codes[d], sides.kernel_dims[d]);
  if (kernel_width > 0) add_axis(sides.kernel, kernel_width);
  if (floats > kMaxTable)
    too_large("tile_rows, tile_cols and the kernel need " + std::to_string(floats) +
                  " numbers of position codes",
              kMaxTable);
}

/// Collects blocks one after another.
struct BlockList {
  std::vector<ParameterBlock> blocks;
  std::int64_t total = 0;

  void add(ParameterBlock::Kind kind, std::int64_t rows, std::int64_t cols) {
    const std::int64_t count = checked_mul(rows, cols, "a g-net");
    blocks.push_back({kind, total, count});
    total = checked_add(total, count, "a g-net");
  }
};

}  // namespace

std::int64_t ParameterInfo::elements() const noexcept {
  std::int64_t n = 1;
  for (std::int64_t side : shape) n *= side;
  return n;
}

std::string_view generator_name(Generator generator) noexcept {
  switch (generator) {
    case Generator::kGNet:
      return "gnet";
    case Generator::kStochastic:
      return "stochastic";
    case Generator::kLowRank:
      return "low_rank";
    case Generator::kXox:
      return "xox";
  }
  return "";
}

std::string generator_text(const GNetSpec& spec) {
  const std::string name(generator_name(spec.generator));
  if (is_product(spec.generator)) return name + " " + std::to_string(spec.rank);
  std::string text = std::to_string(gnet_inputs(spec));
  for (const std::int64_t width : spec.hidden) text += "-" + std::to_string(width);
  text += "-" + std::to_string(gnet_outputs(spec.generator));
  return spec.generator == Generator::kGNet ? text : text + " " + name;
}

void validate(const GNetSpec& spec) {
  validate_names(spec);
  const TileGrid grid = spec.grid();
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  if (generator_name(spec.generator).empty())
    throw Error(Errc::kShapeMismatch, "generator is not a known kind");
  if (!std::isfinite(spec.output_scale))
    throw Error(Errc::kShapeMismatch, "output_scale is not a finite number");
  if (is_product(spec.generator)) {
    validate_product(spec, sides);
  } else {
    validate_codes(spec, sides);
    validate_hidden(spec.hidden);
    if (spec.rank != 0) throw Error(Errc::kShapeMismatch, "rank is set, but a g-net has none");
    const std::int64_t inputs = gnet_inputs(spec);
    if (inputs > kMaxInputs)
      too_large("the position codes have " + std::to_string(inputs) + " inputs", kMaxInputs);
    validate_memory(spec, sides);
    // The codes are normalized by counts that must be exact in double.
    constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;
    if (checked_mul(grid.positions(), inputs, "a tile times its inputs") > kMaxCount)
      too_large("tile_rows times tile_cols times the inputs are too many", kMaxCount);
  }
  const std::int64_t parameters = gnet_parameters(spec);
  if (parameters > kMaxParameters)
    too_large("a g-net has " + std::to_string(parameters) + " parameters", kMaxParameters);
  spec_parameters(spec);
}

std::int64_t gnet_inputs(const GNetSpec& spec) {
  if (is_product(spec.generator)) return 0;
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  std::int64_t inputs =
      checked_add(code_width(spec.row_code, spec.tile_rows),
                  code_width(spec.col_code, spec.tile_cols), "the position codes");
  if (spec.kernel_codes.size() != sides.kernel_dims.size())
    throw Error(Errc::kShapeMismatch, "kernel_codes does not fit the kernel dimensions");
  for (std::size_t d = 0; d < sides.kernel_dims.size(); ++d)
    inputs = checked_add(inputs, code_width(spec.kernel_codes[d], sides.kernel_dims[d]),
                         "the position codes");
  return inputs;
}

std::vector<ParameterBlock> gnet_blocks(const GNetSpec& spec) {
  using Kind = ParameterBlock::Kind;
  BlockList list;
  if (is_product(spec.generator)) {
    const std::int64_t kernel = matrix_sides(spec.shape, spec.view).kernel;
    const std::int64_t cols = checked_mul(spec.tile_cols, kernel, "a g-net");
    list.add(Kind::kFactor, spec.tile_rows, spec.rank);
    if (spec.generator == Generator::kXox) list.add(Kind::kFactor, spec.rank, spec.rank);
    list.add(Kind::kFactor, cols, spec.rank);
    return list.blocks;
  }
  std::int64_t inputs = gnet_inputs(spec);
  for (std::size_t layer = 0; layer <= spec.hidden.size(); ++layer) {
    const std::int64_t outputs =
        layer < spec.hidden.size() ? spec.hidden[layer] : gnet_outputs(spec.generator);
    list.add(Kind::kWeight, inputs, outputs);
    list.add(Kind::kBias, 1, outputs);
    inputs = outputs;
  }
  if (spec.row_code.encoding == Encoding::kLatent)
    list.add(Kind::kLatent, spec.tile_rows, spec.row_code.size);
  if (spec.col_code.encoding == Encoding::kLatent)
    list.add(Kind::kLatent, spec.tile_cols, spec.col_code.size);
  return list.blocks;
}

std::int64_t gnet_parameters(const GNetSpec& spec) {
  const ParameterBlock last = gnet_blocks(spec).back();
  return last.first + last.count;
}

std::int64_t spec_parameters(const GNetSpec& spec) {
  return checked_mul(spec.grid().tiles(), gnet_parameters(spec), "the g-nets of a tensor");
}

}  // namespace gbcompress
