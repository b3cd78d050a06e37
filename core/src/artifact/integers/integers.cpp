#include "artifact/integers/integers.h"

#include <algorithm>
#include <cstdlib>

#include "artifact/sections/float_code.h"
#include "artifact/sections/levels.h"
#include "base/checked.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

void check_integers(std::span<const std::int32_t> integers, const std::string& label) {
  for (const std::int32_t n : integers)
    if (n < -kMaxMagnitude || n > kMaxMagnitude)
      throw Error(Errc::kUsage, label + ": the integer " + std::to_string(n) +
                                    " is beyond 1048576; choose a larger step");
}

void check_step(std::int64_t k, const std::string& label) {
  if (k < kMinStep || k > kMaxStep)
    throw Error(Errc::kUsage, label + ": step " + std::to_string(k) + " is outside " +
                                  std::to_string(kMinStep) + " to " + std::to_string(kMaxStep));
}

void check_float_codes(const CodedValues& values, const std::string& label) {
  if (values.mantissa_bits < 1 || values.mantissa_bits > kMaxMantissaBits ||
      values.step < kMinFloatExponent || values.step > kMaxFloatExponent ||
      !values.row_steps.empty() || values.grid.dependent)
    throw Error(Errc::kUsage, label + " has short floats that are none");
  const std::int32_t codes = float_codes(values.mantissa_bits);
  for (const std::int32_t n : values.integers)
    if (n <= -codes || n >= codes)
      throw Error(Errc::kUsage, label + ": the code " + std::to_string(n) + " is beyond " +
                                    std::to_string(codes - 1));
}

/// Columns of a block as a matrix: inputs of a layer, numbers of a latent code, rank of a factor.
std::vector<std::int64_t> block_cols(const GNetSpec& spec) {
  std::vector<std::int64_t> result;
  std::int64_t inputs = gnet_inputs(spec);
  std::size_t layer = 0;
  const bool latent_rows = spec.row_code.encoding == Encoding::kLatent;
  bool first_latent = true;
  for (const ParameterBlock& block : gnet_blocks(spec)) switch (block.kind) {
      case ParameterBlock::Kind::kWeight:
        result.push_back(inputs);
        break;
      case ParameterBlock::Kind::kBias:
        result.push_back(block.count);
        inputs = layer < spec.hidden.size() ? spec.hidden[layer++] : 1;
        break;
      case ParameterBlock::Kind::kLatent:
        result.push_back(first_latent && latent_rows ? spec.row_code.size : spec.col_code.size);
        first_latent = false;
        break;
      case ParameterBlock::Kind::kFactor:
        result.push_back(spec.rank);
    }
  return result;
}

std::vector<std::int32_t> reorder(const GNetSpec& spec, std::span<const std::int32_t> from,
                                  bool to_blocks) {
  const std::int64_t tiles = spec.grid().tiles(), parameters = gnet_parameters(spec);
  std::vector<std::int32_t> to(from.size());
  std::int64_t at = 0;  // in the order of blocks
  for (const ParameterBlock& block : gnet_blocks(spec))
    for (std::int64_t tile = 0; tile < tiles; ++tile, at += block.count) {
      const std::int64_t natural = tile * parameters + block.first;
      std::copy_n(from.begin() + (to_blocks ? natural : at), block.count,
                  to.begin() + (to_blocks ? at : natural));
    }
  return to;
}

}  // namespace

bool is_grid(const IntegerGrid& grid, std::int64_t elements) noexcept {
  std::int64_t size = 0;
  return grid.rows >= 1 && grid.cols >= 1 && grid.stride >= 0 && grid.stride < grid.cols &&
         !__builtin_mul_overflow(grid.rows, grid.cols, &size) && size == elements;
}

void check_values(const CodedValues& values, const std::string& label) {
  if (!is_grid(values.grid, static_cast<std::int64_t>(values.integers.size())))
    throw Error(Errc::kShapeMismatch, label + " has " + std::to_string(values.integers.size()) +
                                          " integers in " + std::to_string(values.grid.rows) +
                                          " rows of " + std::to_string(values.grid.cols) +
                                          " with stride " + std::to_string(values.grid.stride) +
                                          ", which do not fit together");
  if (!values.row_steps.empty() &&
      static_cast<std::int64_t>(values.row_steps.size()) != values.grid.rows)
    throw Error(Errc::kShapeMismatch, label + " has " + std::to_string(values.row_steps.size()) +
                                          " row steps for " + std::to_string(values.grid.rows) +
                                          " rows");
  check_step(values.step, label);
  if (values.levels.used()) {
    check_levels(values, label);
    check_integers(values.level_table, label);
  }
  if (values.mantissa_bits != 0) return check_float_codes(values, label);
  for (const std::int32_t offset : values.row_steps)
    check_step(std::int64_t{values.step} + offset, label);
  check_integers(values.integers, label);
}

void check_theta(const GNetSpec& spec, const CodedTheta& theta, const std::string& label) {
  if (static_cast<std::int64_t>(theta.integers.size()) != spec_parameters(spec) ||
      theta.steps.size() != gnet_blocks(spec).size())
    throw Error(Errc::kShapeMismatch, label + " has " + std::to_string(theta.integers.size()) +
                                          " g-net parameters and " +
                                          std::to_string(theta.steps.size()) +
                                          " step sizes, and its specification needs " +
                                          std::to_string(spec_parameters(spec)) + " and " +
                                          std::to_string(gnet_blocks(spec).size()));
  for (const int k : theta.steps) check_step(k, label);
  check_integers(theta.integers, label);
}

bool has_default_grid(const ArtifactTensor& tensor) {
  const IntegerGrid& grid = tensor.grid;
  const IntegerGrid usual =
      tensor.nibbles ? nibble_grid(tensor.shape, tensor.dtype) : default_grid(tensor.shape);
  return grid.rows == usual.rows && grid.cols == usual.cols && grid.stride == usual.stride;
}

bool has_values(const ArtifactTensor& tensor) noexcept {
  return tensor.kind == TensorKind::kQuantized || tensor.kind == TensorKind::kPredicted;
}

bool has_coded_theta(const ArtifactTensor& tensor) noexcept {
  return has_spec(tensor.kind) && tensor.coding == Coding::kCoded;
}

bool in_stripes(const ArtifactTensor& tensor) noexcept {
  return (has_values(tensor) || has_coded_theta(tensor)) && tensor.profile == CodecProfile::kLanes;
}

std::vector<IntegerGrid> theta_grids(const GNetSpec& spec) {
  std::vector<IntegerGrid> grids;
  const std::int64_t tiles = spec.grid().tiles();
  const auto blocks = gnet_blocks(spec);
  const auto cols = block_cols(spec);
  for (std::size_t b = 0; b < blocks.size(); ++b)
    grids.push_back({tiles * (blocks[b].count / cols[b]), cols[b], 0});
  return grids;
}

std::vector<IntegerGrid> integer_grids(const ArtifactTensor& tensor) {
  std::vector<IntegerGrid> grids;
  if (has_coded_theta(tensor)) grids = theta_grids(tensor.spec);
  if (!has_values(tensor)) return grids;
  if (tensor.row_steps) grids.push_back({1, tensor.grid.rows, 0});
  if (tensor.levels.used()) grids.push_back(level_grid(tensor.levels, tensor.grid));
  grids.push_back(tensor.grid);
  return grids;
}

std::int64_t integer_count(const ArtifactTensor& tensor) {
  std::int64_t count = 0;
  for (const IntegerGrid& grid : integer_grids(tensor))
    count = checked_add(count, checked_mul(grid.rows, grid.cols, "a tensor"), "a tensor");
  return count;
}

bool fits_small(std::span<const IntegerGrid> grids) noexcept {
  return std::all_of(grids.begin(), grids.end(), [](const IntegerGrid& grid) {
    return (grid.cols == 1 ? grid.rows : grid.cols) <= kMaxSmallColumns;
  });
}

bool can_hold(CodecProfile profile, std::int64_t stored, std::int64_t integers) noexcept {
  if (profile == CodecProfile::kLanes) return integers / codec::lanes::kMostValuesAByte <= stored;
  // Probabilities stay below 1 - 2^-16; a few bytes more are never written.
  return integers / (1 << 19) <= stored + 8;
}

std::vector<std::int32_t> to_blocks(const GNetSpec& spec, std::span<const std::int32_t> integers) {
  return reorder(spec, integers, true);
}

std::vector<std::int32_t> from_blocks(const GNetSpec& spec, std::span<const std::int32_t> blocks) {
  return reorder(spec, blocks, false);
}

void encode_integers(IntegerEncoder& encoder, const ArtifactTensor& tensor,
                     std::span<const std::int32_t> integers) {
  for_grids(tensor, integers,
            [&](const IntegerGrid& grid, std::size_t first, std::span<const std::uint8_t> prior) {
              encoder.add(grid, integers.subspan(first, static_cast<std::size_t>(grid.size())),
                          prior);
            });
}

}  // namespace gbcompress
