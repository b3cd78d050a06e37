#pragma once
/// G-nets on an NVIDIA GPU. The kernels are in a module of their own, libgbcompress_cuda.so, which
/// is opened at run time (docs/explanation/adr/0003-cuda-module.md). No LibTorch here.

#include <filesystem>
#include <memory>

#include "base/internal.h"
#include "gnet/tile_kernel.h"

namespace GBC_INTERNAL gbcompress {

struct CudaOptions {
  int device = 0;
  /// The cudaStream_t to work on, such as LibTorch's current one; null: the default stream.
  void* stream = nullptr;
  std::filesystem::path module;  ///< empty: libgbcompress_cuda.so beside libgbcompress.so
};

/// A kernel for GPUs from sm_80 on. Theta, gradients and tiles of one call lie all on the device or
/// all in host memory.
///
/// - On the device: the work is queued on the stream and the call returns at once. Where pieces of
///   the tiles lie is kept on the device for the next call with the same shape and tiles.
/// - In host memory: it is copied there and back in parts of at most 64 MiB; done when it returns.
///
/// The same bits in every run on the same kind of GPU.
/// @throws Error(kUnsupported) without the module or a GPU, naming which; the kernel's calls throw
///         Error(kUsage) for memory of both kinds, Error(kUnsupported) for more than 8 hidden
///         layers, Error(kLimit) for g-nets it cannot count, Error(kFailure) where the GPU fails
std::unique_ptr<TileKernel> make_cuda_kernel(const CudaOptions& options = {});

}  // namespace gbcompress
