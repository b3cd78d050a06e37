#include "masked_mean.h"

#include <ATen/ATen.h>

namespace gbcompress {

at::Tensor held_positions(const at::Tensor& x) { return x.detach().ne(0).any(-1); }

at::Tensor masked_mean(const at::Tensor& x, const at::Tensor& mask) {
  const at::Tensor count = mask.sum(1, /*keepdim=*/true).clamp_min(1);
  return (x * mask.unsqueeze(-1)).sum(1) / count.to(x.dtype());
}

}  // namespace gbcompress
