#include "train/untrained_steps.h"

#include <algorithm>
#include <cmath>

#include "bottleneck/internals.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Steps from 2^-16 to 2^6 are tried. They are found at a resolution of 2^(1/64): a tensor's own is
/// one of those that files store, but which of two neighbors depends on its deviation, so that not
/// all change at once.
constexpr int kFine = 4;
constexpr int kFinestStep = -16 * 16 * kFine, kCoarsestStep = 6 * 16 * kFine;
constexpr double kFineEvenness = 0.03;
double fine_step(int k) { return std::exp2(k / (16.0 * kFine)); }
/// Between two of them, of which both sides are assumed.
BracketSearch fine_steps(int holds, int fails) {
  return {{.scale = Scale::kInteger}, {.holds = holds, .fails = fails}};
}
int side(std::optional<double> k) { return static_cast<int>(*k); }

/// The first bits per weight of a file, by a Gaussian's error, and the overhead beside them; after
/// so many steps aimed at a size, bisection.
constexpr double kFirstBits = 3, kOverhead = 0.2;
constexpr int kAimed = 8;
/// The margin over a sample's estimate at first: one evaluation too many is costly.
constexpr double kSampleMargin = 1.004;
/// Approximate relative error of integers that a trellis chose, for that of the nearest ones.
double trellis_error(double nearest) {
  return kSampleMargin * nearest * (0.74 - 0.37 * std::pow(nearest, 0.4));
}

}  // namespace

double quantize_to_size(GenomicBottleneck& bottleneck, std::int64_t max_bytes,
                        Quantizer quantizer) {
  // Bits of a Gaussian number at that error: what the size is nearly proportional to.
  const auto bits = [&](int k) {
    return -std::log2(
               std::max(BottleneckIntegers::expected_error(bottleneck, fine_step(k), kFineEvenness),
                        1e-30)) /
           2;
  };
  double aim = kFirstBits, last_bits = -kOverhead, last_size = 0;
  BracketSearch search = fine_steps(/*holds=*/kCoarsestStep, /*fails=*/kFinestStep - 1);
  const auto guess = [&] {
    const int fits = side(search.holds()), fails = side(search.fails());
    if (search.state().cuts >= kAimed) return (fits + fails) / 2;
    return last_that_holds(fails, fits - 1, [&](int k) { return bits(k) > aim; }) + 1;
  };
  while (const auto x = search.next(guess())) {
    const int at = static_cast<int>(*x);
    BottleneckIntegers::quantize(bottleneck, fine_step(at), kFineEvenness, quantizer);
    const auto size = static_cast<double>(bottleneck.bytes());
    search.tried(at, size <= static_cast<double>(max_bytes));
    const double now = bits(at), slope = (size - last_size) / (now - last_bits);
    aim = slope > 0 ? now + (static_cast<double>(max_bytes) - size) / slope : now;
    last_bits = now;
    last_size = size;
  }
  const double step = fine_step(side(search.holds()));
  if (search.state().last != search.holds())
    BottleneckIntegers::quantize(bottleneck, step, kFineEvenness, quantizer);
  return step;
}

void quantize_to_error(GenomicBottleneck& bottleneck, double max_error, Quantizer quantizer) {
  // What the error is beside that of the nearest integers: first about, then as it was.
  double ratio = 0;
  const auto expected = [&](int k) {
    const double nearest =
        BottleneckIntegers::expected_error(bottleneck, fine_step(k), kFineEvenness);
    if (ratio > 0) return ratio * nearest;
    return quantizer == Quantizer::kTrellis ? trellis_error(nearest) : kSampleMargin * nearest;
  };
  BracketSearch search = fine_steps(/*holds=*/kFinestStep, /*fails=*/kCoarsestStep + 1);
  const auto guess = [&] {
    return last_that_holds(side(search.holds()), side(search.fails()) - 1,
                           [&](int k) { return expected(k) <= max_error; });
  };
  for (double x = guess(); const auto next = search.next(x); x = guess()) {
    const bool stays = x == search.holds();
    if (stays && search.state().last == search.holds()) break;  // the next one would not fit
    const int at = static_cast<int>(*next);
    BottleneckIntegers::quantize(bottleneck, fine_step(at), kFineEvenness, quantizer);
    const double error = BottleneckIntegers::relative_error(bottleneck);
    search.tried(at, error <= max_error);
    ratio = 1;
    ratio = error / std::max(expected(at), 1e-30);
  }
  if (search.state().last != search.holds())
    BottleneckIntegers::quantize(bottleneck, fine_step(side(search.holds())), kFineEvenness,
                                 quantizer);
}

}  // namespace gbcompress
