#pragma once
/// Tiles in host memory: their numbers go to the device and back in parts of bounded size.

#include "cuda/job.h"

namespace gbcompress::cuda {

/// @param grad  empty: forward
void run_staged(const Device& device, const BankShape& shape, std::span<const float> theta,
                std::span<const TileTarget> tiles, std::span<float> grad, const Budget& budget);
void run_staged(const Device& device, const BankShape& shape, std::span<const float> theta,
                std::span<const TileSource> tiles, std::span<float> grad, const Budget& budget);

}  // namespace gbcompress::cuda
