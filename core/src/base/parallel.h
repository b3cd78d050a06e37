#pragma once
/// Work on several processors, for code that knows no LibTorch. Threads sleep while they wait.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Processors that this process may run on, at least 1.
int usable_processors() noexcept;

/// Calls body(0), ..., body(n - 1), each once, on up to `threads` threads, in any order. Where one
/// throws, no further ones are begun and the first exception is thrown here.
#ifdef GBC_FREESTANDING  // libgbz has one thread
template <typename Body>
void parallel_tasks(int, std::int64_t n, const Body& body) {
  for (std::int64_t i = 0; i < n; ++i) body(i);
}
#else
void parallel_tasks(int threads, std::int64_t n, const std::function<void(std::int64_t)>& body);
#endif

/// The same for items of different sizes, begun in their order: those at work have at most the size
/// `most` together, or that of the largest item where that is more. Each has the share of the
/// threads that it has of this size, at least one.
/// @param body  gets an item and its number of threads
void bounded_tasks(const std::vector<std::int64_t>& sizes, std::int64_t most, int threads,
                   const std::function<void(std::size_t, int)>& body);

}  // namespace gbcompress
