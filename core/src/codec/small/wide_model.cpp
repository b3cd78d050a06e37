#include "codec/small/wide_model.h"

namespace gbcompress::codec {

Survival::Survival() {
  constexpr std::uint64_t kDecay = 4278222805;  // 2^32 exp(-1/256), rounded
  std::uint64_t decayed = std::uint64_t{1} << 31;
  for (auto& entry : decay_) {
    entry = static_cast<std::int64_t>(decayed);
    decayed = (decayed * kDecay + (std::uint64_t{1} << 31)) >> 32;
  }
  // Densities in the middles of 64ths: exp(-x^2 / pi) and exp(-x).
  constexpr std::uint64_t kCurve = 4294299804,
                          kFall = 4228380000;  // 2^32 exp(-2 / (4096 pi)), 2^32 exp(-1 / 64)
  std::array<std::array<std::uint64_t, kEnd>, kShapes> density;
  std::uint64_t gauss = std::uint64_t{1} << 31, ratio = kCurve, laplace = std::uint64_t{1} << 31;
  for (int k = 0; k < kEnd; ++k) {
    density[0][k] = gauss;
    density[1][k] = laplace;
    gauss = gauss * ratio >> 32;
    ratio = ratio * kCurve >> 32;
    laplace = laplace * kFall >> 32;
  }
  for (int shape = 0; shape < kShapes; ++shape) {
    std::uint64_t all = 0, sum = 0;
    for (const std::uint64_t d : density[shape]) all += d;
    table_[shape][kEnd] = 0;
    for (int k = kEnd; k-- > 0;) {
      sum += density[shape][k];
      table_[shape][k] = static_cast<std::int64_t>((sum << 24) / (all >> 6));
    }
  }
}

const Survival& Survival::tables() {
  static const Survival instance;
  return instance;
}

WideModel::WideModel()
    : magnitude_(
          {.start = 1 << 21, .limit = 1023, .rate = 1072, .settling = 8192, .table_weight = 4000},
          {kNodes * kLevels, kNodes * kLevels, kNodes * kLevels},
          {kMostBits + kDepths, 2 * kMostBits + 1}, {13107, 13107, 13107, 13107, 13107, 0}),
      peak_(
          {.start = 1 << 16, .limit = 1023, .rate = 1072, .settling = 8192, .table_weight = 65536},
          {kPlaces}, {1, 1}, {0}) {}

void WideModel::begin(std::int64_t cols) {
  cols_ = cols;
  col_ = 0;
  peak_before_ = peak_here_ = 0;
}

void WideModel::look(const View& view) {
  const auto& f = view.features;
  // Row times column over all.
  const int narrow = f[0] + f[2] - f[4], around = f[1] + f[2] - f[4];
  const int both = (f[0] + f[1]) / 2 + (f[2] + f[6]) / 2 - f[4];
  const std::array<int, kExpected> means = {narrow, both, f[4], f[3], around};
  for (int i = 0; i < kExpected; ++i)
    reciprocal_[i] = Survival::tables().reciprocal(std::clamp(means[i], -1024, kMaxLogOdds));
  const auto level = [&](int mean) { return std::clamp((mean - f[4] + 384) / 48, 0, kLevels - 1); };
  levels_ = {0, level(f[0]), level(narrow)};
}

void WideModel::put(int value) {
  peak_here_ = std::max(peak_here_, std::abs(value));
  if (++col_ < cols_) return;
  peak_before_ = std::max(peak_before_, peak_here_);
  peak_here_ = 0;
  col_ = 0;
}

}  // namespace gbcompress::codec
