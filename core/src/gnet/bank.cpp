#include "gnet/bank.h"

#include <ATen/ATen.h>

#include <sstream>

#include "gnet/initialise.h"

namespace gbcompress {

std::string bank_key(const GNetSpec& spec) {
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  std::ostringstream key;
  key << generator_name(spec.generator) << spec.rank << '|' << spec.tile_rows << 'x'
      << spec.tile_cols;
  for (std::size_t k = 0; k < sides.kernel_dims.size(); ++k)
    key << 'x' << sides.kernel_dims[k] << code_text(spec.kernel_codes[k]);
  key << '|' << code_text(spec.row_code) << '|' << code_text(spec.col_code);
  for (std::int64_t width : spec.hidden) key << '-' << width;
  return key.str();
}

void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      at::Tensor theta) {
  initialise_gnets(
      shape, seed, name,
      std::span<float>(theta.data_ptr<float>(), static_cast<std::size_t>(theta.numel())));
}

}  // namespace gbcompress
