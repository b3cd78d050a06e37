#pragma once
/// Bands of rows side by side, whose errors move later columns together.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/parallel.h"
#include "quantize/feedback/add_scaled.h"
#include "quantize/feedback/upper_factor.h"

namespace GBC_INTERNAL gbcompress {

/// Rows that go side by side, and bands that share each read of the factor, which is larger than
/// the caches.
inline constexpr std::int64_t kBand = kOuterWidth, kBands = 4;

/// How errors of columns [first, first + count) move all later ones, as add_outers() reads it.
class LaterFactors {
 public:
  LaterFactors(const UpperFactor& columns, std::int64_t first, std::int64_t count, int threads = 1)
      : n_(columns.size()),
        later_(first + count),
        count_(count),
        packed_(static_cast<std::size_t>(std::max<std::int64_t>(0, n_ - later_ + kOuterPanel) *
                                         count)) {
    const std::int64_t panels = (n_ - later_ + kOuterPanel - 1) / kOuterPanel;
    parallel_tasks(threads, (panels + kPanels - 1) / kPanels, [&](std::int64_t task) {
      const std::int64_t from = later_ + task * kPanels * kOuterPanel,
                         end = std::min(n_, from + kPanels * kOuterPanel);
      for (std::int64_t k = 0; k < count_; ++k) pack(columns.row(first + k), k, from, end);
    });
  }

  /// Adds the errors to the columns that follow.
  /// @param targets  [bands, cols, kBand]
  /// @param errors   [bands, of_band], of which the first [count, kBand]
  void spread(std::int64_t bands, float* targets, const float* errors, std::int64_t of_band) const {
    for (std::int64_t from = later_; from < n_; from += kPanels * kOuterPanel) {
      const std::int64_t wide = std::min(kPanels * kOuterPanel, n_ - from);
      for (std::int64_t band = 0; band < bands; ++band)
        add_outers(targets + (band * n_ + from) * kBand, packed_.data() + (from - later_) * count_,
                   errors + band * of_band, count_, wide);
    }
  }

 private:
  static constexpr std::int64_t kPanels = 16;  ///< that stay in the cache while bands read them

  void pack(const double* row, std::int64_t k, std::int64_t from, std::int64_t end) {
    float* panel = packed_.data() + (from - later_) * count_ + k * kOuterPanel;
    for (; from + kOuterPanel <= end; from += kOuterPanel, panel += count_ * kOuterPanel)
      for (std::int64_t j = 0; j < kOuterPanel; ++j) panel[j] = static_cast<float>(row[from + j]);
    for (std::int64_t j = 0; from + j < end; ++j) panel[j] = static_cast<float>(row[from + j]);
  }

  std::int64_t n_, later_, count_;
  std::vector<float> packed_;  ///< [panels of 8 columns, count, 8]
};

}  // namespace gbcompress
