#pragma once
/// Memory for the values of one stripe after another.

#include <cstddef>
#include <memory>

#ifndef GBC_FREESTANDING
#include <mutex>
#include <utility>
#include <vector>

#include "base/fresh_memory.h"
#include "codec/lanes/layout.h"
#endif

namespace gbcompress {

#ifdef GBC_FREESTANDING  // libgbz: less code
class UnitsRoom {
 public:
  std::shared_ptr<float> take(std::size_t size) {
    return {new float[size], std::default_delete<float[]>()};
  }
};
#else
/// New memory of 4 MiB for each stripe would cost more time in page faults than the decoding.
class UnitsRoom {
 public:
  /// Memory for that many values. Where no user is left, it is used again. [thread-safe]
  std::shared_ptr<float> take(std::size_t size) {
    FreshMemory memory = free_->take(size * sizeof(float));
    auto* const values = reinterpret_cast<float*>(memory.data());
    auto kept = std::make_shared<FreshMemory>(std::move(memory));
    return {values, [kept, free = free_](float*) { free->give(std::move(*kept)); }};
  }

 private:
  /// Pieces of the size of a stripe.
  struct Free {
    static constexpr std::size_t kSize = codec::lanes::kStripeValues * sizeof(float), kMost = 2;
    std::mutex mutex;
    std::vector<FreshMemory> pieces;

    Free() { pieces.reserve(kMost); }  // so that give() does not fail
    FreshMemory take(std::size_t bytes) {
      if (bytes <= kSize / 4 || bytes > kSize) return FreshMemory(bytes);
      const std::lock_guard lock(mutex);
      if (pieces.empty()) return FreshMemory(kSize);
      FreshMemory memory = std::move(pieces.back());
      pieces.pop_back();
      return memory;
    }
    void give(FreshMemory memory) {
      const std::lock_guard lock(mutex);
      if (memory.size() == kSize && pieces.size() < kMost) pieces.push_back(std::move(memory));
    }
  };
  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};
#endif

}  // namespace gbcompress
