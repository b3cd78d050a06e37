#include "train/land.h"

#include <algorithm>
#include <cmath>

#include "bottleneck/internals.h"

namespace gbcompress {
namespace {

/// Steps from 2^-16 to 2^6 are tried. They are found at a resolution of 2^(1/64): a tensor's own is
/// one of those that files store, but which of two neighbours depends on its deviation, so that not
/// all change at once.
constexpr int kFine = 4;
constexpr int kFinestStep = -16 * 16 * kFine, kCoarsestStep = 6 * 16 * kFine;
constexpr double kFineEvenness = 0.03;
double fine_step(int k) { return std::exp2(k / (16.0 * kFine)); }

/// A file has first so many bits a number, as far as a Gaussian's error tells, and this many more
/// than that; after so many steps aimed at a size the rest is halved.
constexpr double kFirstBits = 3, kOverhead = 0.2;
constexpr int kAimed = 8;
/// So much more than a sample says is expected at first: one try too many is dear.
constexpr double kSampleMargin = 1.004;
/// About the relative error of integers that a trellis chose, for that of the nearest ones.
double trellis_error(double nearest) {
  return kSampleMargin * nearest * (0.74 - 0.37 * std::pow(nearest, 0.4));
}

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

double next_coarser(double step) { return step * fine_step(1); }

double land_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted,
                      const TrainRateOptions& rate) {
  const double evenness = std::max(rate.evenness, kFineEvenness);
  // Bits of a Gaussian number at that error: what the size is nearly proportional to.
  const auto bits = [&](int k) {
    return -std::log2(std::max(
               BottleneckInternals::expected_error(bottleneck, fine_step(k), evenness), 1e-30)) /
           2;
  };
  // The finest step that fits lies from above `fails` to `fits`.
  int fits = kCoarsestStep, fails = kFinestStep - 1, done = fails;
  double aim = kFirstBits, last_bits = -kOverhead, last_size = 0;
  for (int tries = 0; fits - fails > 1; ++tries) {
    int at = (fits + fails) / 2;
    if (tries < kAimed)
      at = last_fitting(fails, fits - 1, [&](int k) { return bits(k) > aim; }) + 1;
    at = std::clamp(at, fails + 1, fits - 1);
    BottleneckInternals::quantise(bottleneck, fine_step(at), evenness, rate.quantiser);
    done = at;
    const auto size = static_cast<double>(bottleneck.bytes());
    (size <= static_cast<double>(wanted) ? fits : fails) = at;
    const double now = bits(at), slope = (size - last_size) / (now - last_bits);
    aim = slope > 0 ? now + (static_cast<double>(wanted) - size) / slope : now;
    last_bits = now;
    last_size = size;
  }
  if (done != fits)
    BottleneckInternals::quantise(bottleneck, fine_step(fits), evenness, rate.quantiser);
  return fine_step(fits);
}

void land_untrained(GenomicBottleneck& bottleneck, double max_error, Quantiser quantiser) {
  // What the error is beside that of the nearest integers: first about, then as it was.
  double ratio = 0;
  const auto expected = [&](int k) {
    const double nearest =
        BottleneckInternals::expected_error(bottleneck, fine_step(k), kFineEvenness);
    if (ratio > 0) return ratio * nearest;
    return quantiser == Quantiser::kTrellis ? trellis_error(nearest) : kSampleMargin * nearest;
  };
  // The largest step that fits lies from `fits` to below `fails`.
  int fits = kFinestStep, fails = kCoarsestStep + 1, done = fails;
  while (fails - fits > 1) {
    const int guess =
        last_fitting(fits, fails - 1, [&](int k) { return expected(k) <= max_error; });
    if (guess == fits && done == fits) break;  // the next one would not fit
    const int at = std::max(guess, fits + 1);
    BottleneckInternals::quantise(bottleneck, fine_step(at), kFineEvenness, quantiser);
    done = at;
    const double error = BottleneckInternals::relative_error(bottleneck);
    (error <= max_error ? fits : fails) = at;
    ratio = 1;
    ratio = error / std::max(expected(at), 1e-30);
  }
  if (done != fits)
    BottleneckInternals::quantise(bottleneck, fine_step(fits), kFineEvenness, quantiser);
}

}  // namespace gbcompress
