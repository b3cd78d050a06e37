#pragma once
/// The exact kernel over threads.

#include <memory>

#include "gnet/tile_kernel.h"

namespace gbcompress {

/// make_reference_kernel(), each tile by one of at::parallel_for's threads: tiles do not know of
/// each other, so that threads change no bit. What it writes is what a file expands to.
std::unique_ptr<TileKernel> make_exact_kernel();

}  // namespace gbcompress
