#include "gnet/bank.h"

#include <ATen/ATen.h>

#include <sstream>

#include "gnet/initialise.h"

namespace gbcompress {

std::string bank_key(const GNetPlan& plan) {
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  std::ostringstream key;
  key << generator_name(plan.generator) << plan.rank << '|' << plan.tile_rows << 'x'
      << plan.tile_cols;
  for (std::size_t k = 0; k < sides.kernel_dims.size(); ++k)
    key << 'x' << sides.kernel_dims[k] << code_text(plan.kernel_codes[k]);
  key << '|' << code_text(plan.row_code) << '|' << code_text(plan.col_code);
  for (std::int64_t width : plan.hidden) key << '-' << width;
  return key.str();
}

void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      at::Tensor theta) {
  initialise_gnets(
      shape, seed, name,
      std::span<float>(theta.data_ptr<float>(), static_cast<std::size_t>(theta.numel())));
}

}  // namespace gbcompress
