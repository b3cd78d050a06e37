#include "codec/surroundings.h"

#include <algorithm>
#include <cstdlib>

#include "codec/logistic.h"

namespace gbcompress::codec {
namespace {

constexpr int kMostCounted = 4095;  // larger magnitudes count as this: sums fit 64 bits

int bounded(int log) { return std::clamp(log, -kMaxLogOdds, kMaxLogOdds); }

int log_ratio(std::int64_t above, std::int64_t below) {  // `above` is in units of 2^-16
  constexpr int kUnit = 2839;                            // 16 octaves
  const Logistic& tables = Logistic::tables();
  return bounded(tables.log(above) - tables.log(below) - kUnit);
}

/// Position i of n as -256 ... 256.
int centred(std::int64_t i, std::int64_t n) {
  return static_cast<int>((256 * (2 * i + 1) / n) - 256);
}
int second_order(int u) { return (u * u >> 7) - 256; }

}  // namespace

Surroundings::Surroundings(const IntegerGrid& grid, std::span<const RowMagnitudes> links)
    : row_count_(grid.rows), cols_(grid.cols), stride_(grid.stride > 1 ? grid.stride : 0) {
  if (cols_ == 1) {  // a vector is a row, whichever way it was given
    std::swap(row_count_, cols_);
    stride_ = 0;
  }
  width_ = stride_ ? stride_ : cols_;
  height_ = (cols_ + width_ - 1) / width_;
  current_.assign(cols_, 0);
  previous_.assign(cols_, 0);
  columns_.assign(cols_, 0);
  column_signs_.assign(cols_, 0);
  rows_.sums.reserve(row_count_);
  for (const RowMagnitudes& link : links) {
    const auto units = static_cast<std::int64_t>(link.sums.size());
    if (cols_ % units == 0 && cols_ / units <= 64) {
      link_ = &link;
      columns_a_link_ = cols_ / units;
    }
  }
}

std::int64_t Surroundings::columns_around(std::int64_t col) const {
  std::int64_t near = column(col - 1) + column(col + 1);
  std::int64_t far = 0;
  if (stride_) {
    near += column(col - stride_) + column(col + stride_);
    for (std::int64_t side : {-1, 1})
      far += column(col - stride_ + side) + column(col + stride_ + side);
  } else {
    far = column(col - 2) + column(col + 2);
  }
  return 4 * column(col) + 2 * near + far;
}

int Surroundings::wide(std::int64_t expected) const {
  std::int64_t sum = 0;
  int count = 0;
  const auto add = [&](std::int64_t col) {
    if (col < 0 || col >= col_) return;
    sum += std::min(std::abs(current_[col]), kMostCounted);
    ++count;
  };
  if (stride_) {
    for (int side = 1; side <= 3; ++side) add(col_ - side);
    for (int line = 1; line <= 3; ++line)
      for (int side = -3; side <= 3; ++side) add(col_ - line * stride_ + side);
  } else {
    for (int side = 1; side <= 12; ++side) add(col_ - side);
  }
  return log_ratio((sum << 16) + 8 * expected, count + 8);
}

int Surroundings::link_feature(std::int64_t col) const {
  if (!link_) return 0;
  const Logistic& tables = Logistic::tables();
  const std::int64_t mean = (link_->total << 16) / static_cast<std::int64_t>(link_->sums.size());
  const std::int64_t unit = link_->sums[col / columns_a_link_];
  return bounded(tables.log((unit << 19) + mean + 655) - tables.log(9 * mean + 655));
}

View Surroundings::look(int prior) const {
  // How many values the mean of all counts for in each of the others.
  constexpr int kRow = 24, kColumn = 4, kNear = 16, kPrior = 8;
  View view;
  view.left = at(col_ - 1);
  view.left2 = at(col_ - 2);
  view.up = stride_ ? at(col_ - stride_) : 0;
  view.up_left = stride_ ? at(col_ - stride_ - 1) : 0;
  view.up_right = stride_ ? at(col_ - stride_ + 1) : 0;
  view.up2 = stride_ ? at(col_ - 2 * stride_) : 0;
  view.above = previous_[col_];
  view.column_sign = column_signs_[col_];
  view.prior = prior;

  // Mean magnitude of all values so far, units of 2^-16.
  const std::int64_t expected =
      std::max<std::int64_t>(16, ((all_.sum << 16) + 6553) / (all_.count + 1));
  const auto weigh = [](int value) {
    return std::int64_t{std::min(std::abs(value), kMostCounted)};
  };
  const std::int64_t near =
      stride_ ? 2 * (weigh(view.left) + weigh(view.up)) + weigh(view.left2) + weigh(view.up_left) +
                    weigh(view.up_right) + weigh(view.up2)
              : 3 * weigh(view.left) + 2 * weigh(view.left2) + weigh(at(col_ - 3));
  const int near_count = stride_ ? 8 : 6;
  const int around_count = stride_ ? 16 : 10;
  const int x = centred(col_ % width_, width_);
  const int y = centred(col_ / width_, height_);
  const int all = log_ratio(expected, 1);
  view.features = {
      log_ratio((columns_[col_] << 18) + expected * kColumn, row_ * 4 + kColumn),
      log_ratio((columns_around(col_) << 16) + expected * kColumn, row_ * around_count + kColumn),
      log_ratio((row_sum_ << 16) + expected * kRow, col_ + kRow),
      log_ratio((near << 16) + expected * kNear, near_count + kNear),
      all,
      link_feature(col_),
      wide(expected),
      log_ratio((priors_[prior].sum << 16) + expected * kPrior, priors_[prior].count + kPrior) -
          all,
      x,
      second_order(x),
      y,
      second_order(y),
  };
  return view;
}

void Surroundings::put(int value, int prior) {
  const int magnitude = std::min(std::abs(value), kMostCounted);
  current_[col_] = value;
  columns_[col_] += magnitude;
  column_signs_[col_] += (value > 0) - (value < 0);
  row_sum_ += magnitude;
  all_.sum += magnitude;
  ++all_.count;
  priors_[prior].sum += magnitude;
  ++priors_[prior].count;
  if (++col_ < cols_) return;
  rows_.sums.push_back(row_sum_);
  rows_.total += row_sum_;
  row_sum_ = 0;
  col_ = 0;
  ++row_;
  current_.swap(previous_);
}

}  // namespace gbcompress::codec
