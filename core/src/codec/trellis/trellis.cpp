#include <algorithm>
#include <cmath>
#include <numbers>

#include "codec/lanes/layout.h"
#include "codec/trellis/scale_classes.h"
#include "codec/trellis/trellis_path.h"
#include "gbcompress/codec.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using codec::kCostMagnitudes;
using codec::kLeastScaleClass;
using codec::kMostScaleClass;
using codec::kZeroScaleClass;

/// Lambda in squared steps a bit: the smallest files at an error (Gaussian and Laplace
/// numbers of 2 to 5 bits) have 0.25 to 0.35 of a squared half step.
constexpr double kRateWeight = 0.3 / 4;
/// Numbers of a band, which begins and ends in state 0: that makes about 7 bits more.
constexpr std::int64_t kBand = 4096;
constexpr std::int64_t kBandsAPart = 32;
constexpr std::int64_t kShortBand = 1024;  ///< worth having where a part is filled with them
/// How many numbers say that all rows and columns are alike.
constexpr double kTrust = 8;

/// Bits under a hyperbolic secant, whose tails lie between those of Gauss and Laplace.
codec::RateCosts make_rate_costs() {
  codec::RateCosts costs{};
  const auto beyond = [](double x) {    // P(|number| > x), where the mean magnitude is 1
    constexpr double kMean = 0.742454;  // of the distribution of deviation 1
    return 1 - 4 / std::numbers::pi * std::atan(std::tanh(std::numbers::pi / 4 * x * kMean));
  };
  for (int scale = kLeastScaleClass; scale <= kMostScaleClass; ++scale)
    for (int quantizer = 0; quantizer < 2; ++quantizer)
      for (int k = 0; k < kCostMagnitudes; ++k) {
        // From where to where a number becomes this integer, in steps.
        const double middle = quantizer == 0 ? k : k - 0.5;
        const double low = k == 0 ? 0 : quantizer == 1 && k == 1 ? 0.25 : middle - 0.5;
        const double high = k == 0 ? (quantizer == 0 ? 0.5 : 0.25) : middle + 0.5;
        const double unit = std::exp2(-scale / 4.0);
        double p = beyond(low * unit) - beyond(high * unit);
        if (k > 0) p /= 2;
        const auto at = static_cast<std::size_t>(
            ((scale - kLeastScaleClass) * 2 + quantizer) * kCostMagnitudes + k);
        costs[at] = static_cast<std::int32_t>(
            std::lrint(-1024 * kRateWeight * std::log2(std::max(p, 1e-6))));
      }
  for (std::size_t at = std::size_t{(kZeroScaleClass - kLeastScaleClass) * 2} * kCostMagnitudes;
       at < costs.size(); ++at)
    costs[at] = at % kCostMagnitudes == 0 ? 0 : codec::kNeverChosen;
  return costs;
}

}  // namespace

namespace codec {

const RateCosts& rate_costs() {
  static const RateCosts instance = make_rate_costs();
  return instance;
}

std::int16_t sixteenths(double size) {
  return static_cast<std::int16_t>(std::lrint(16 * std::log2(std::max(size, 1e-30))));
}

std::int8_t scale_class(int row_scale, int col_scale, int unit) {
  return static_cast<std::int8_t>(
      std::clamp((row_scale - unit + 2 + col_scale) >> 2, kLeastScaleClass, kMostScaleClass));
}

Scales scales_of(const IntegerGrid& grid, std::span<const float> values) {
  Scales scales;
  const auto rows = static_cast<std::size_t>(grid.rows), cols = static_cast<std::size_t>(grid.cols);
  std::vector<double> row_sums(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (const float value : values.subspan(r * cols, cols))
      sum += static_cast<double>(std::fabs(value));
    row_sums[r] = sum;
  }
  double all = 0;
  for (const double sum : row_sums) all += sum;
  const double mean = all / static_cast<double>(grid.size());
  std::vector<double> col_sums(cols, kTrust);
  for (std::size_t r = 0; r < rows; ++r) {
    const double size = (row_sums[r] + kTrust * mean) / (static_cast<double>(cols) + kTrust);
    scales.rows.push_back(sixteenths(size));
    const float inverse = size > 0 ? static_cast<float>(1 / size) : 0;
    for (std::size_t c = 0; c < cols; ++c)
      col_sums[c] += static_cast<double>(std::fabs(values[r * cols + c]) * inverse);
  }
  for (const double sum : col_sums)
    scales.cols.push_back(sixteenths(sum / (static_cast<double>(rows) + kTrust)));
  return scales;
}

}  // namespace codec

Trellis::Trellis(const IntegerGrid& grid, std::span<const float> values)
    : values_(values), cols_(grid.cols), lanes_(grid.lanes) {
  if (grid.rows < 1 || grid.cols < 1 || static_cast<std::size_t>(grid.size()) != values.size())
    throw Error(Errc::kUsage, std::to_string(values.size()) + " values were given for a grid of " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  const auto n = static_cast<std::int64_t>(values.size());
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  bands_ = n < kShortBand * kBandsAPart ? up(n, kBand) : up(n, kBand * kBandsAPart) * kBandsAPart;
  band_size_ = up(n, bands_);
  if (lanes_) band_size_ = codec::lanes::Shape(grid).block_values();
  // Rounded up, the bands may be more than the numbers fill.
  bands_ = up(n, band_size_);

  auto [row_scales, col_scales] = codec::scales_of(grid, values);
  row_scales_ = std::move(row_scales);
  col_scales_ = std::move(col_scales);
}

std::int64_t Trellis::parts() const noexcept {
  return lanes_ ? bands_ : (bands_ + kBandsAPart - 1) / kBandsAPart;
}

std::vector<std::int8_t> Trellis::classes(std::int64_t first, std::int64_t end, float step) const {
  const int unit = codec::sixteenths(static_cast<double>(step));
  std::vector<std::int8_t> classes(static_cast<std::size_t>(end - first));
  for (std::int64_t i = first; i < end;) {
    const std::int64_t row = i / cols_, stop = std::min(end, (row + 1) * cols_);
    const int scale = row_scales_[static_cast<std::size_t>(row)];
    for (std::int64_t c = i % cols_; i < stop; ++i, ++c)
      classes[static_cast<std::size_t>(i - first)] =
          values_[static_cast<std::size_t>(i)] == 0
              ? std::int8_t{kZeroScaleClass}
              : codec::scale_class(scale, col_scales_[static_cast<std::size_t>(c)], unit);
  }
  return classes;
}

/// A block is 64 paths, one a lane, which end in any state.
double Trellis::choose_lanes(std::int64_t block, float step,
                             std::span<std::int32_t> integers) const {
  constexpr std::int64_t kLanes = codec::lanes::kLaneCount;
  const auto n = static_cast<std::int64_t>(values_.size());
  const std::int64_t first = block * band_size_, size = std::min(band_size_, n - first);
  const std::vector<std::int8_t> by_row = classes(first, first + size, step);
  std::vector<float> values(static_cast<std::size_t>(size));
  std::vector<std::int8_t> kinds(values.size());
  std::vector<std::int32_t> chosen(values.size());
  std::vector<codec::Band> bands;
  // Calls move(place in a lane, place in the block) for all values.
  const auto for_lanes = [&](const auto& move) {
    std::size_t to = 0;
    for (std::int64_t lane = 0; lane < std::min(kLanes, size); ++lane)
      for (std::int64_t i = lane; i < size; i += kLanes) move(to++, static_cast<std::size_t>(i));
  };
  for_lanes([&](std::size_t to, std::size_t i) {
    values[to] = values_[static_cast<std::size_t>(first) + i];
    kinds[to] = by_row[i];
  });
  for (std::int64_t lane = 0, at = 0; lane < std::min(kLanes, size); ++lane) {
    const std::int64_t count = (size - lane + kLanes - 1) / kLanes;
    bands.push_back({values.data() + at, kinds.data() + at, chosen.data() + at, count, false});
    at += count;
  }
  codec::choose_paths(bands, step, codec::rate_costs());
  for_lanes([&](std::size_t from, std::size_t i) {
    integers[static_cast<std::size_t>(first) + i] = chosen[from];
  });
  double error = 0;
  for (const codec::Band& band : bands) error += band.error;
  return error;
}

double Trellis::choose(std::int64_t part, float step, std::span<std::int32_t> integers) const {
  if (lanes_) return choose_lanes(part, step, integers);
  const auto n = static_cast<std::int64_t>(values_.size());
  const std::int64_t first_band = part * kBandsAPart;
  const std::int64_t end_band = std::min(bands_, first_band + kBandsAPart);
  const std::int64_t first = first_band * band_size_, end = std::min(n, end_band * band_size_);
  const std::vector<std::int8_t> classes = this->classes(first, end, step);
  std::vector<codec::Band> bands;
  for (std::int64_t band = first_band; band < end_band; ++band) {
    const std::int64_t at = band * band_size_, size = std::min(band_size_, n - at);
    bands.push_back({values_.data() + at, classes.data() + (at - first), integers.data() + at, size,
                     band + 1 < bands_});
  }
  codec::choose_paths(bands, step, codec::rate_costs());
  double error = 0;
  for (const codec::Band& band : bands) error += band.error;
  return error;
}

}  // namespace gbcompress
