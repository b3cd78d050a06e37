#pragma once
/// What nvcc declares by itself, so that Clang can check the syntax of .cu files with the headers of
/// the CUDA runtime alone (scripts/check). Nothing of it is ever run.

#include <cuda_runtime.h>
#include <device_launch_parameters.h>

#define __launch_bounds__(...)

extern "C" unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared = 0,
                                                void* stream = nullptr);

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value);
