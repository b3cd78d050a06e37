#pragma once
/// Kernels that compute with several threads. No LibTorch, but for the two that use its threads.

#include <cstdint>
#include <functional>
#include <memory>

#include "base/internal.h"
#include "gnet/tile_kernel.h"

namespace GBC_INTERNAL gbcompress {

/// Calls body(begin, end) for ranges that make up [0, n), by several threads where there are more
/// than `grain` items for each.
using RangeRunner =
    std::function<void(std::int64_t n, std::int64_t grain,
                       const std::function<void(std::int64_t begin, std::int64_t end)>& body)>;

/// The product's kernel: each tile in one pass that recomputes hidden activations instead of
/// storing them, vectorized for the processor it runs on. The same bits for any number of threads.
std::unique_ptr<TileKernel> make_fused_kernel_with(RangeRunner run);

/// make_reference_kernel(), each tile by one thread: tiles do not depend on each other, so that
/// threads change no bit. What it writes is what a file expands to.
std::unique_ptr<TileKernel> make_exact_kernel_with(RangeRunner run);
/// The same over the threads of at::parallel_for. Of the library with LibTorch.
std::unique_ptr<TileKernel> make_exact_kernel();

}  // namespace gbcompress
