#pragma once
/// Pieces of a tensor on threads of our own.

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "base/segments.h"

namespace gbcompress::python {

/// Starting a thread takes longer than this many numbers.
inline constexpr std::int64_t kOneThread = 1 << 17;

/// Calls body(0 ... pieces - 1), on several threads where `n` numbers are worth it.
/// @param threads  0: one for each processor
template <typename Body>
void in_parallel(int threads, std::int64_t n, std::size_t pieces, const Body& body) {
  if (n < kOneThread || threads == 1) {
    for (std::size_t i = 0; i < pieces; ++i) body(i);
    return;
  }
  parallel_tasks(threads > 0 ? threads : usable_processors(), static_cast<std::int64_t>(pieces),
                 [&](std::int64_t i) { body(static_cast<std::size_t>(i)); });
}

}  // namespace gbcompress::python
