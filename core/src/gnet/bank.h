#pragma once
/// All g-nets of one shape, from however many parameters: one buffer, one kernel call.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "gnet/tile_kernel.h"

namespace gbcompress {

/// What makes two specifications' g-nets equal in shape: same codes, tile, kernel and widths.
std::string bank_key(const GNetSpec& spec);

/// A row of g-nets `[tiles, parameters]` inside the buffer that all banks share.
struct Bank {
  BankShape shape;
  at::Tensor theta;                 ///< [tiles, parameters] float32, a view
  at::Tensor grad;                  ///< the same view of the gradients
  std::vector<std::size_t> layers;  ///< whose tiles follow one another here
};

/// initialise_gnets() of gnet/initialise.h over a tensor.
/// @param theta  [tiles, parameters], contiguous
void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      at::Tensor theta);

}  // namespace gbcompress
