#include "codec/small/small_model.h"

namespace gbcompress::codec {
namespace {

// First weights of the features, in the order of View::features, then of the constant.
constexpr std::array<int, kFeatureCount + 1> kZeroWeights = {
    2600, 3300, 6600, 6600, 700, 51000, 6600, 51000, 0, 0, 0, 0, 700};
constexpr std::array<int, kFeatureCount + 1> kMoreWeights = {
    6600, 3300, 3300, 13000, 6600, 6600, 6600, 51000, 0, 0, 0, 0, 0};
constexpr std::array<int, 4> kZeroKeys = {64, 32 * 32, 32 * 8, 32 * 32};
constexpr int kDensities = 8;  // levels of the mean of all, by fours

/// Tables for both quantizers.
std::array<int, 4> twice(std::array<int, 4> keys) {
  for (int& count : keys) count *= 2;
  return keys;
}

int level(int feature) { return std::clamp((feature + 2048) / 80, 0, 31); }

}  // namespace

SmallModel::SmallModel()
    : zero_({.start = 209715, .limit = 128, .rate = 544, .settling = 1 << 30, .table_weight = 7340},
            twice(kZeroKeys), {2 * 2, kDensities}, kZeroWeights),
      sign_({.start = 1 << 21, .limit = 255, .rate = 7936, .settling = 1024, .table_weight = 36700},
            {9, 81, 27}, {1, kDensities}, {51000, 6600, 0}),
      more_(
          {.start = 1258291, .limit = 1023, .rate = 1072, .settling = 8192, .table_weight = 13107},
          twice(kMoreKeys), {2 * 3, kDensities}, kMoreWeights),
      exponent_(
          {.start = 1 << 21, .limit = 255, .rate = 1072, .settling = 8192, .table_weight = 13107},
          {kExponents}, {1, kDensities}, kMoreWeights) {}

void SmallModel::begin(const IntegerGrid& grid) {
  place_.emplace(grid, links_);
  state_ = QuantizerState(grid.dependent);
  is_wide_ = grid.wide;
  if (is_wide_ && !wide_) wide_.emplace();
  if (is_wide_) wide_->begin(place_->cols());
}

void SmallModel::look(int prior) {
  view_ = place_->look(prior);
  const auto& features = view_.features;
  const auto any = [](int value) { return value != 0 ? 1 : 0; };
  const int pattern = any(view_.left) * 32 + any(view_.up) * 16 + any(view_.left2) * 8 +
                      any(view_.up_left) * 4 + any(view_.up_right) * 2 + any(view_.up2);
  const int beside =
      any(view_.left) + any(view_.left2) + any(view_.up) + any(view_.up_left) + any(view_.up_right);
  column_level_ = level(features[1]);
  row_level_ = level(features[2]);
  zero_keys_ = {pattern, column_level_ * 32 + row_level_, column_level_ * 8 + beside,
                level(features[6]) * 32 + column_level_};
  quantizer_ = static_cast<int>(state_.quantizer());
  for (std::size_t i = 0; i < kZeroKeys.size(); ++i) zero_keys_[i] += quantizer_ * kZeroKeys[i];
  zero_set_ = std::min(1, beside) + 2 * quantizer_;
  density_ = level(features[4]) / 4;
  if (is_wide_) wide_->look(view_);
}

void SmallModel::put(int value) {
  place_->put(value, view_.prior);
  state_.pass(value);
  if (is_wide_) wide_->put(value);
}

void SmallModel::end() {
  if (place_->rows() > 1 && place_->cols() > 1) {
    links_.push_back(place_->take_rows());
    if (links_.size() > kLinks) links_.erase(links_.begin());
  }
  place_.reset();
}

}  // namespace gbcompress::codec
