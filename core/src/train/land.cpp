#include "train/land.h"

#include <algorithm>
#include <cmath>

namespace gbcompress {
namespace {

/// At the largest price nothing is left but zeros.
constexpr double kFirstLambda = 1, kLargestLambda = 4096;
constexpr int kHalvings = 12;
/// Room that is left is given to finer steps, a sixteenth of an octave at a time.
constexpr double kEnough = 0.99, kFiner = 0.957603280698574;
constexpr int kRefinements = 64;
/// Steps are tried at a resolution of 2^(1/16), as files store them.
constexpr double kFinest = 0x1p-16, kCoarsest = 0x1p6;
/// Steps are found at a resolution of 2^(1/64): a tensor's own is one of those that files store,
/// but which of two neighbours depends on its deviation, so that not all change at once.
constexpr int kFine = 4;
constexpr double kFineEvenness = 0.03;
constexpr float kFirstTried = 0.02f;
double fine_step(int k) { return std::exp2(k / (16.0 * kFine)); }

/// The largest k of [low, high] for which `fits`, which is so up to some k; or low.
template <typename Fits>
int last_fitting(int low, int high, const Fits& fits) {
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace

void land(GenomicBottleneck& bottleneck, std::int64_t wanted, const FileBytes& file_bytes) {
  double low = 0, high = kFirstLambda;
  bottleneck.choose_integers(0);
  const auto enough = static_cast<std::int64_t>(kEnough * static_cast<double>(wanted));
  for (int i = 0; i < kRefinements && file_bytes(bottleneck) < enough; ++i) {
    bottleneck.scale_steps(kFiner);
    bottleneck.choose_integers(0);
  }
  if (file_bytes(bottleneck) <= wanted) return;
  bottleneck.choose_integers(high);
  while (high < kLargestLambda && file_bytes(bottleneck) > wanted) {
    low = high;
    bottleneck.choose_integers(high *= 4);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    bottleneck.choose_integers(middle);
    (file_bytes(bottleneck) <= wanted ? high : low) = middle;
  }
  bottleneck.choose_integers(high);
}

void land_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted, double evenness,
                    const FileBytes& file_bytes) {
  const int finest = kFine * nearest_step(kFinest), coarsest = kFine * nearest_step(kCoarsest);
  evenness = std::max(evenness, kFineEvenness);
  // Counted from the coarsest: what fits, fits up to some fineness.
  const int chosen = last_fitting(0, coarsest - finest, [&](int finer) {
    bottleneck.quantise(fine_step(coarsest - finer), evenness);
    return file_bytes(bottleneck) <= wanted;
  });
  bottleneck.quantise(fine_step(coarsest - chosen), evenness);
}

void land_untrained(GenomicBottleneck& bottleneck, double max_error) {
  // The largest step that fits lies from `fits` to below `fails`.
  int fits = kFine * nearest_step(kFinest), fails = kFine * nearest_step(kCoarsest) + 1;
  int at = kFine * nearest_step(kFirstTried), done = fails;
  while (fails - fits > 1) {
    bottleneck.quantise(fine_step(at), kFineEvenness);
    done = at;
    const double error = bottleneck.relative_error();
    (error <= max_error ? fits : fails) = at;
    // The error grows with the square of the step.
    const double octaves = std::log2(std::max(max_error, 1e-30) / std::max(error, 1e-30)) / 2;
    const double guess = at + std::floor(octaves * 16 * kFine);
    at = static_cast<int>(std::clamp(guess, fits + 1.0, std::max(fails - 1.0, fits + 1.0)));
  }
  if (done != fits) bottleneck.quantise(fine_step(fits), kFineEvenness);
}

}  // namespace gbcompress
