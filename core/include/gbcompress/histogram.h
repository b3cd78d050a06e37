#pragma once
/// How the numbers of tensors are distributed, before and after. LibTorch-free.

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "gbcompress/compare.h"
#include "gbcompress/export.h"

namespace GBC_API gbcompress {

inline constexpr std::size_t kHistogramBins = 32;

/// Bins of equal width from `low` to `high`: four standard deviations around the mean of the
/// original (of the file, where there is none), and no further than its values reach. What lies
/// beyond counts to the first or the last bin.
struct TensorHistogram {
  std::string name;
  double low = 0, high = 0;
  std::vector<std::int64_t> file;      ///< [kHistogramBins]
  std::vector<std::int64_t> original;  ///< [kHistogramBins], or empty: there is no such tensor
  std::int64_t not_finite = 0;         ///< NaN and infinities of both, which no bin counts
};

/// Of the tensors of real numbers with those names, in the file's order; of the original's only
/// those of the same shape.
/// @param original  or null
/// @throws as TensorSource::bytes()
std::vector<TensorHistogram> histograms(const TensorSource& file, const TensorSource* original,
                                        const std::unordered_set<std::string>& names);

}  // namespace gbcompress
