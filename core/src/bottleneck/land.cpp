// The last choice of integers, for a file of the size that is asked.
#include "bottleneck/impl.h"

namespace gbcompress {
namespace {

/// Prices of a bit, in squared steps: at the largest nothing is left but zeros.
constexpr double kFirstLambda = 1, kLargestLambda = 4096;
constexpr int kHalvings = 12;

}  // namespace

void GenomicBottleneck::Impl::land(std::int64_t wanted) {
  const auto bytes_at = [&](double lambda) {
    choose_integers(lambda);
    return bytes();
  };
  // What fits is left as it was trained: numbers that are chosen anew answer worse, even where
  // finer steps would fill the room (docs/rate.md).
  std::int64_t size = bytes_at(0);
  if (size <= wanted) return;
  double low = 0, high = kFirstLambda, last = high;
  size = bytes_at(high);
  while (size > wanted && high < kLargestLambda) {
    low = high;
    size = bytes_at(last = high *= 4);
  }
  if (size > wanted) return;  // this is as small as it gets
  for (int i = 0; i < kHalvings; ++i) {
    last = (low + high) / 2;
    (bytes_at(last) <= wanted ? high : low) = last;
  }
  if (last != high) choose_integers(high);
}

}  // namespace gbcompress
