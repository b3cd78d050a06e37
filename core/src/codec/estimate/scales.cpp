#include "codec/estimate/scales.h"

#include <algorithm>

#include "codec/small/logistic.h"

namespace gbcompress::codec {

std::uint64_t power(int sixteenths) {
  static constexpr std::uint64_t kRoots[16] = {65536,  68437,  71467,  74631, 77935,  81386,
                                               84989,  88752,  92681,  96785, 101070, 105545,
                                               110217, 115097, 120193, 125514};
  const int octaves = sixteenths >> 4;
  const std::uint64_t root = kRoots[sixteenths & 15];
  return octaves >= 0 ? root << octaves : root >> -octaves;
}

std::int64_t table_mean(int table) {
  return static_cast<std::int64_t>(power(4 * (table + kLeastScale)));
}

std::vector<std::uint32_t> first_weights(int table) {
  // Two-sided geometric: P(s) ~ ratio^|s|. With mean magnitude m the ratio is near
  // m (1 + m) / (m^2 + 2 m + 2).
  const std::int64_t mean = table_mean(table), one = 65536;
  const std::int64_t ratio = mean * (one + mean) / ((mean * mean >> 16) + 2 * mean + 2 * one);
  const int range = table_range(table);
  std::vector<std::uint32_t> weights(2 * range + 2);
  std::int64_t weight = std::int64_t{1} << 24;
  for (int s = 0; s <= range; ++s) {
    weights[range + s] = weights[range - s] = static_cast<std::uint32_t>(weight);
    weight = weight * ratio >> 16;
  }
  weights.back() = static_cast<std::uint32_t>(2 * weight * one / (one - ratio));
  return weights;
}

std::uint64_t UnitScales::inverse_of(int row_scale) {
  return power(16 * 12 - 4 * row_scale);  // units of 2^-28
}

void UnitScales::end_rows(std::int64_t rows) {
  constexpr std::uint32_t kTrust = 2;     // how many rows say that all units are alike
  constexpr std::uint32_t kMemory = 512;  // counts are halved here
  rows_ += rows;
  if (rows_ < next_) return;
  next_ = rows_ + std::clamp<std::int64_t>(rows_ / 8, 1, 64);
  const Logistic& tables = Logistic::tables();
  for (std::size_t unit = 0; unit < sums_.size(); ++unit) {
    if (counts_[unit] >= kMemory) {
      counts_[unit] /= 2;
      sums_[unit] /= 2;
    }
    const int octaves = tables.log2(sums_[unit] + std::uint64_t{kTrust} * 256) -
                        tables.log2(counts_[unit] + kTrust) - 8 * 256;  // units of 2^-8
    scales_[unit] = static_cast<std::int8_t>(
        std::clamp((octaves + 8) >> 4, -kMostColumnScale, kMostColumnScale));
  }
}

Segments::Segments(const IntegerGrid& grid) : rows_(grid.rows), cols_(grid.cols) {
  constexpr std::int64_t kLeast = 64, kMost = 1024;
  if (cols_ == 1) std::swap(rows_, cols_);  // a vector is a row, whichever way it was given
  group_ = (kLeast + cols_ - 1) / cols_;
  pieces_ = (cols_ + kMost - 1) / kMost;
}

bool Segments::next(Segment& segment) {
  if (row_ >= rows_) return false;
  if (pieces_ == 1) {
    const std::int64_t last = std::min(rows_, row_ + group_);
    segment = {row_ * cols_, last * cols_, 0, last - row_};
    row_ = last;
    return true;
  }
  const std::int64_t begin = piece_ * cols_ / pieces_;
  const std::int64_t end = (piece_ + 1) * cols_ / pieces_;
  const bool whole = ++piece_ == pieces_;
  segment = {row_ * cols_ + begin, row_ * cols_ + end, begin, whole ? 1 : 0};
  if (whole) {
    piece_ = 0;
    ++row_;
  }
  return true;
}

}  // namespace gbcompress::codec
