#pragma once
/// TileKernel on a GPU, on any module; the tests give it one that computes on the host.

#include "cuda/launches.h"
#include "cuda/make_kernel.h"
#include "cuda/module.h"

namespace gbcompress::cuda {

/// @param module  must live as long as the kernel
/// @throws Error(kUsage) where there is no fitting GPU
std::unique_ptr<TileKernel> make_kernel(const Module& module, const CudaOptions& options,
                                        const Budget& budget);

}  // namespace gbcompress::cuda
