#pragma once
/// A module that computes on the host: the same kernels, one thread after another. Device memory is
/// host memory that nobody else may take for it, full of NaN until it is written.

#include "cuda/module.h"

namespace gbcompress::cuda {

const Module& host_module();

/// In which order the threads of a block run. Results must not depend on it.
enum class ThreadOrder { kForward, kBackward, kShuffled };
void set_thread_order(ThreadOrder order);

/// Allocations that were not released.
std::int64_t host_module_allocations();
/// Launches so far.
std::int64_t host_module_launches();
/// What devices() finds from now on; an error where not null.
void set_host_devices(std::int32_t count, std::int32_t major, const char* error);
/// Lets the n-th call from now on that may fail fail, once; 0: none.
void fail_call(std::int64_t n);

}  // namespace gbcompress::cuda
