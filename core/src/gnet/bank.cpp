#include "gnet/bank.h"

#include <ATen/ATen.h>

#include <sstream>

#include "base/random.h"

namespace gbcompress {

std::string bank_key(const GNetPlan& plan) {
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  std::ostringstream key;
  key << plan.tile_rows << 'x' << plan.tile_cols;
  for (std::size_t k = 0; k < sides.kernel_dims.size(); ++k)
    key << 'x' << sides.kernel_dims[k] << encoding_name(plan.kernel_codes[k]);
  key << '|' << encoding_name(plan.row_code) << '|' << encoding_name(plan.col_code);
  for (std::int64_t width : plan.hidden) key << '-' << width;
  return key.str();
}

void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      at::Tensor theta) {
  const RandomStream stream(seed, "init", name);
  const std::int64_t parameters = shape.parameters();
  const auto layers = shape.layers();
  float* data = theta.data_ptr<float>();
  theta.zero_();
  for (std::int64_t tile = 0; tile < theta.size(0); ++tile) {
    for (const auto& layer : layers) {
      const std::int64_t first = tile * parameters + layer.weight;
      stream.fill_normal({data + first, static_cast<std::size_t>(layer.inputs * layer.outputs)}, 0,
                         0.1f, static_cast<std::uint64_t>(first));
    }
  }
}

}  // namespace gbcompress
