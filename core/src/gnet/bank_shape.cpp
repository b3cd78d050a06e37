#include "gnet/tile_kernel.h"

namespace gbcompress {

std::vector<BankShape::Layer> BankShape::layers() const {
  std::vector<Layer> result;
  std::int64_t inputs = codes.inputs();
  for (std::size_t l = 0; l <= hidden.size(); ++l) {
    const std::int64_t outputs = l < hidden.size() ? hidden[l] : gnet_outputs(generator);
    result.push_back({.inputs = inputs,
                      .outputs = outputs,
                      .weight = blocks[2 * l].first,
                      .bias = blocks[2 * l + 1].first});
    inputs = outputs;
  }
  return result;
}

std::int64_t BankShape::row_latents() const noexcept { return blocks[2 * hidden.size() + 2].first; }
std::int64_t BankShape::col_latents() const noexcept {
  return blocks[2 * hidden.size() + (codes.rows.trained ? 3 : 2)].first;
}

BankShape bank_shape(const GNetSpec& spec) {
  validate(spec);
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  BankShape shape{.generator = spec.generator,
                  .codes = {},
                  .tile_rows = spec.tile_rows,
                  .tile_cols = spec.tile_cols,
                  .kernel = sides.kernel,
                  .hidden = spec.hidden,
                  .rank = spec.rank,
                  .blocks = gnet_blocks(spec)};
  if (!is_product(spec.generator))
    shape.codes = encode_tile(spec.row_code, spec.tile_rows, spec.col_code, spec.tile_cols,
                              spec.kernel_codes, sides.kernel_dims);
  return shape;
}

}  // namespace gbcompress
