#pragma once
/// Resident memory of this process, from /proc/self.

#include <cstdint>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Bytes in memory now; -1 where the system does not tell.
std::int64_t resident_bytes();

/// The largest number of bytes in memory since the last reset_peak(), or since the process began.
std::int64_t peak_bytes();

/// Gives free memory of the allocator back, then lets peak_bytes() begin anew.
/// @return false where the system does not allow it
bool reset_peak();

}  // namespace gbcompress
