#pragma once
/// Memory that runs out at a chosen allocation of this thread. Without sanitizers malloc() itself
/// fails, so that C libraries are met too; with them operator new alone, because malloc() is
/// theirs.

namespace gbcompress::testing {

/// From here to the end of the object's life, allocation `first` (from 0) of this thread fails,
/// and, where `forever`, all after it.
class FailingMemory {
 public:
  FailingMemory(long first, bool forever) noexcept;
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
};

/// How many allocations failed since the last FailingMemory was made.
long failed_allocations() noexcept;
/// Blocks that this thread holds: allocated less freed.
long held_blocks() noexcept;

}  // namespace gbcompress::testing
