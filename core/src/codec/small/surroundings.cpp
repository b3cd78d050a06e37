#include "codec/small/surroundings.h"

#include <algorithm>
#include <cstdlib>

#include "codec/small/logistic.h"

namespace gbcompress::codec {
namespace {

constexpr int kMostCounted = 4095;  // larger magnitudes count as this: sums fit 64 bits

constexpr std::int64_t kRun = 12;

int counted(int value) { return std::min(std::abs(value), kMostCounted); }

int bounded(int log) { return std::clamp(log, -kMaxLogOdds, kMaxLogOdds); }

/// Of means whose sums are in units of 2^-16, from the logarithms of sum and count.
int log_ratio(int above, int below) {
  constexpr int kUnit = 2839;  // 16 octaves
  return bounded(above - below - kUnit);
}

/// How many values the mean of all counts for in each of the others.
constexpr int kRow = 24, kColumn = 4, kNear = 16, kPrior = 8, kWide = 8;

/// Position i of n as -256 ... 256.
std::int16_t centred(std::int64_t i, std::int64_t n) {
  return static_cast<std::int16_t>((256 * (2 * i + 1) / n) - 256);
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
  begin_columns(links);
  begin_row();
}

void Surroundings::begin_columns(std::span<const RowMagnitudes> links) {
  const RowMagnitudes* found = nullptr;
  std::int64_t columns_a_unit = 1;
  for (const RowMagnitudes& link : links) {
    const auto units = static_cast<std::int64_t>(link.sums.size());
    if (cols_ % units == 0 && cols_ / units <= 64) {
      found = &link;
      columns_a_unit = cols_ / units;
    }
  }
  known_.resize(cols_);
  for (std::int64_t col = 0; col < cols_; ++col)
    known_[col] = {centred(col % width_, width_), centred(col / width_, height_), 0};
  if (!found) return;
  const std::int64_t mean = (found->total << 16) / static_cast<std::int64_t>(found->sums.size());
  const int usual = log(9 * mean + 655);
  for (std::int64_t col = 0; col < cols_; ++col) {
    const std::int64_t unit = found->sums[col / columns_a_unit];
    known_[col].link = static_cast<std::int16_t>(bounded(log((unit << 19) + mean + 655) - usual));
  }
}

void Surroundings::begin_row() {
  log_row_ = log(row_ * 4 + kColumn);
  log_around_ = log(row_ * (stride_ ? 16 : 10) + kColumn);
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

Surroundings::Mean Surroundings::wide() const {
  if (!stride_) return run_;
  Mean around;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t col = std::max<std::int64_t>(first, 0); col < std::min(last, col_); ++col) {
      around.sum += counted(current_[col]);
      ++around.count;
    }
  };
  add(col_ - 3, col_);
  for (int line = 1; line <= 3; ++line) {
    const std::int64_t beside = col_ - line * stride_;
    add(beside - 3, beside + 4);
  }
  return around;
}

View Surroundings::look(int prior) const {
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
  const auto magnitude = [](int value) { return std::int64_t{counted(value)}; };
  const Mean around = wide();
  const std::int64_t near =
      stride_ ? 2 * (magnitude(view.left) + magnitude(view.up)) + magnitude(view.left2) +
                    magnitude(view.up_left) + magnitude(view.up_right) + magnitude(view.up2)
              : 3 * magnitude(view.left) + 2 * magnitude(view.left2) + magnitude(at(col_ - 3));
  const int near_count = stride_ ? 8 : 6;
  const Column& known = known_[col_];
  const int all = log_ratio(log(expected), 0);
  view.features = {
      log_ratio(log((columns_[col_] << 18) + expected * kColumn), log_row_),
      log_ratio(log((columns_around(col_) << 16) + expected * kColumn), log_around_),
      log_ratio(log((row_sum_ << 16) + expected * kRow), log(col_ + kRow)),
      log_ratio(log((near << 16) + expected * kNear), log(near_count + kNear)),
      all,
      known.link,
      log_ratio(log((around.sum << 16) + expected * kWide), log(around.count + kWide)),
      log_ratio(log((priors_[prior].sum << 16) + expected * kPrior),
                log(priors_[prior].count + kPrior)) -
          all,
      known.x,
      second_order(known.x),
      known.y,
      second_order(known.y),
  };
  return view;
}

void Surroundings::put(int value, int prior) {
  const int magnitude = counted(value);
  current_[col_] = value;
  columns_[col_] += magnitude;
  column_signs_[col_] += (value > 0) - (value < 0);
  row_sum_ += magnitude;
  all_.sum += magnitude;
  ++all_.count;
  priors_[prior].sum += magnitude;
  ++priors_[prior].count;
  run_.sum += magnitude;
  if (run_.count < kRun)
    ++run_.count;
  else
    run_.sum -= counted(current_[col_ - kRun]);
  if (++col_ < cols_) return;
  run_ = {};
  rows_.sums.push_back(row_sum_);
  rows_.total += row_sum_;
  row_sum_ = 0;
  col_ = 0;
  ++row_;
  begin_row();
  current_.swap(previous_);
}

}  // namespace gbcompress::codec
