#pragma once
/// What writers of the same file left behind when they were killed.

#include <filesystem>

#include "base/internal.h"

namespace gbcompress {

/// Locks a temporary file for as long as the descriptor is open, so that others see that its writer
/// lives. Where the file system has no locks, nothing happens.
void lock_temporary(int fd) noexcept;

/// Removes files `path`.tmp-PROCESS-NUMBER whose writer is gone. One is left alone unless all of
/// this holds: it is an ordinary file of this user; no process of that number runs; no process
/// holds its lock, and one can be had, which says the same of processes in other containers and on
/// other machines; it is at least ten seconds older than `own`, so that its writer has had the time
/// to lock it, or more than ten newer: the clock was set back since. Errors are not reported: a
/// file that stays does no harm.
/// @param own  descriptor of a file that was just made in the same folder, whose clock counts
void remove_stale_temporaries(const std::filesystem::path& path, int own) noexcept;

/// The same without the age, for a file that only the caller's run writes: a run that goes on at
/// once after it was killed finds what it left a moment ago.
GBC_INTERNAL void remove_temporaries_of_killed(const std::filesystem::path& path) noexcept;

}  // namespace gbcompress
