#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "bench/machine_probe.h"
#include "bench/peak_loop.h"
#include "gnet/fused.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kFmaIterations = 200'000;  // about half a millisecond

std::size_t copy_bytes() {
  const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or -1 where it is not known
  return static_cast<std::size_t>(std::clamp<long>(3 * cache, 64L << 20, 512L << 20));
}

}  // namespace

MachineProbe::MachineProbe()
    : threads_(at::get_num_threads()), from_(copy_bytes(), 1), to_(from_.size(), 0) {}

void MachineProbe::sample() {
  std::atomic<std::int64_t> lanes = 0;
  const auto multiply = [&] {
    lanes = 0;
    at::parallel_for(0, threads_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        float value = 0.5f;
        lanes += fma_loop(kFmaIterations, value);
        // The sums have reached 1, unless the loop was optimized away.
        if (!(value > 1)) lanes = std::int64_t{-1} << 60;
      }
    });
  };
  multiply();  // wakes the threads
  const double fma_seconds = seconds_of([&] {
    for (int i = 0; i < 4; ++i) multiply();
  });
  fma_.push_back(4 * static_cast<double>(lanes.load()) / fma_seconds);

  const auto bytes = static_cast<std::int64_t>(from_.size());
  const double copy_seconds = seconds_of([&] {
    at::parallel_for(0, threads_, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * bytes / threads_, last = end * bytes / threads_;
      std::memcpy(to_.data() + first, from_.data() + first, static_cast<std::size_t>(last - first));
    });
  });
  copy_.push_back(2 * static_cast<double>(bytes) / copy_seconds);
}

MachineRates MachineProbe::rates() const {
  return {static_cast<int>(threads_), fused_target_name(),
          *std::max_element(fma_.begin(), fma_.end()),
          *std::max_element(copy_.begin(), copy_.end())};
}

}  // namespace gbcompress
