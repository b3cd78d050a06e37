#include "codec/small_model.h"

namespace gbcompress::codec {
namespace {

constexpr int kMixed = 5243;  // 0.08: first weight of a table
constexpr std::array<int, kFeatureCount + 1> kZeroWeights = {6554,  6554, 6554, 6554, 655,
                                                             51118, 6554, 655,  655};
constexpr std::array<int, kFeatureCount + 1> kMoreWeights = {6554, 6554, 6554, 6554, 6554,
                                                             6554, 6554, 655,  0};

int level(int feature) { return std::clamp((feature + 2048) / 80, 0, 31); }

}  // namespace

SmallModel::SmallModel()
    : zero_({.start = 209715, .limit = 128, .rate = 3, .table_weight = kMixed},
            {64, 32 * 32, 32 * 64, 32 * 32}, 3, kZeroWeights),
      sign_({.start = 1 << 21, .limit = 255, .rate = 31, .table_weight = 13107}, {9, 81, 27}, 1,
            {13107, 13107, 0}),
      more_({.start = 1258291, .limit = 255, .rate = 3, .table_weight = 13107},
            {32, 32 * 10, 32 * 32, 32 * 32}, 3, kMoreWeights),
      exponent_({.start = 1 << 21, .limit = 255, .rate = 3, .table_weight = 13107}, {32}, 1,
                kMoreWeights) {}

void SmallModel::begin(const IntegerGrid& grid) { place_.emplace(grid, links_); }

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
  zero_keys_ = {pattern, column_level_ * 32 + row_level_, column_level_ * 64 + beside * 8,
                level(features[6]) * 32 + column_level_};
  zero_set_ = std::min(2, beside);
}

void SmallModel::put(int value) { place_->put(value, view_.prior); }

void SmallModel::end() {
  if (place_->rows() > 1 && place_->cols() > 1) {
    links_.push_back(place_->take_rows());
    if (links_.size() > kLinks) links_.erase(links_.begin());
  }
  place_.reset();
}

}  // namespace gbcompress::codec
