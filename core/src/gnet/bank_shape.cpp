#include "gbcompress/tile_kernel.h"

namespace gbcompress {

std::vector<BankShape::Layer> BankShape::layers() const {
  std::vector<Layer> result;
  std::int64_t inputs = codes.inputs();
  std::int64_t offset = 0;
  for (std::size_t l = 0; l <= hidden.size(); ++l) {
    const std::int64_t outputs = l < hidden.size() ? hidden[l] : 1;
    const std::int64_t bias = offset + inputs * outputs;
    result.push_back({.inputs = inputs, .outputs = outputs, .weight = offset, .bias = bias});
    offset = bias + outputs;
    inputs = outputs;
  }
  return result;
}

std::int64_t BankShape::parameters() const noexcept {
  std::int64_t inputs = codes.inputs();
  std::int64_t total = 0;
  for (std::int64_t outputs : hidden) {
    total += (inputs + 1) * outputs;
    inputs = outputs;
  }
  return total + inputs + 1;
}

BankShape bank_shape(const GNetPlan& plan) {
  validate(plan);
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  return {.codes = encode_tile(plan.row_code, plan.tile_rows, plan.col_code, plan.tile_cols,
                               plan.kernel_codes, sides.kernel_dims),
          .tile_rows = plan.tile_rows,
          .tile_cols = plan.tile_cols,
          .kernel = sides.kernel,
          .hidden = plan.hidden};
}

}  // namespace gbcompress
