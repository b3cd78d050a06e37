#pragma once
/// Work on several processors, for code that knows no LibTorch. Threads sleep while they wait.

#include <cstdint>
#include <functional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Processors that this process may run on, at least 1.
int usable_processors() noexcept;

/// Calls body(0), ..., body(n - 1), each once, on up to `threads` threads, in any order. Where one
/// throws, no further ones are begun and the first exception is thrown here.
void parallel_tasks(int threads, std::int64_t n, const std::function<void(std::int64_t)>& body);

}  // namespace gbcompress
