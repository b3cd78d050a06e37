#pragma once
/// What happens to memory that was freed.

#include <cstdlib>  // __GLIBC__
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace gbcompress::cli {

/// Large tensors come and go: what was freed is used again instead of coming zeroed from the
/// kernel.
inline void keep_freed_memory() noexcept {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

}  // namespace gbcompress::cli
