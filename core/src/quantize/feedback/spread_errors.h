#pragma once
/// Bands of rows side by side, whose errors move later columns together.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quantize/feedback/add_scaled.h"
#include "quantize/feedback/upper_factor.h"

namespace GBC_INTERNAL gbcompress {

/// Rows that go side by side, and bands that share each read of the factor, which is larger than
/// the caches.
inline constexpr std::int64_t kBand = kOuterWidth, kBands = 4;

/// Adds the errors of columns [first, first + count) to all later ones.
/// @param targets  [bands, cols, kBand]
/// @param errors   [bands, of_band], of which the first [count, kBand]
inline void spread_errors(const UpperFactor& columns, std::int64_t first, std::int64_t count,
                          std::int64_t bands, float* targets, const float* errors,
                          std::int64_t of_band) {
  constexpr std::int64_t kChunk = 128;  // columns of the factor that stay in the cache meanwhile
  const std::int64_t n = columns.size();
  std::vector<float> chunk(static_cast<std::size_t>(count * kChunk));
  for (std::int64_t from = first + count; from < n; from += kChunk) {
    const std::int64_t wide = std::min(kChunk, n - from);
    for (std::int64_t k = 0; k < count; ++k) {
      const double* row = columns.row(first + k) + from;
      float* panel = chunk.data() + k * kOuterPanel;
      std::int64_t left = wide;
      for (; left >= kOuterPanel; left -= kOuterPanel, panel += count * kOuterPanel)
        for (std::int64_t j = 0; j < kOuterPanel; ++j) panel[j] = static_cast<float>(*row++);
      for (std::int64_t j = 0; j < left; ++j) panel[j] = static_cast<float>(*row++);
    }
    for (std::int64_t band = 0; band < bands; ++band)
      add_outers(targets + (band * n + from) * kBand, chunk.data(), errors + band * of_band, count,
                 wide);
  }
}

}  // namespace gbcompress
