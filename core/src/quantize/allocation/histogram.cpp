#include "gbcompress/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>

#include "format/tensor_bundle.h"
#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {
namespace {

constexpr double kDeviations = 4;

std::vector<float> floats(const TensorSource& source, std::size_t i) {
  const StoredTensor& tensor = source.tensors()[i];
  const std::vector<std::byte> bytes = source.bytes(i);
  return numbers_of(
      {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = bytes});
}

/// Sets low and high. @return whether any value is finite
bool set_range(std::span<const float> values, TensorHistogram& into) {
  double n = 0, sum = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const auto x = static_cast<double>(value);
    ++n;
    sum += x;
    squares += x * x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  if (n == 0) return false;
  const double mean = sum / n;
  const double reach = kDeviations * std::sqrt(std::max(0.0, squares / n - mean * mean));
  into.low = std::max(least, mean - reach);
  into.high = std::min(most, mean + reach);
  // All the same, as far as float64 tells: one bin around it.
  if (!(into.high > into.low)) {
    const double room = std::max(1e-6, 1e-3 * std::fabs(mean));
    into.low = mean - room;
    into.high = mean + room;
  }
  return true;
}

std::vector<std::int64_t> counts(std::span<const float> values, TensorHistogram& into) {
  std::vector<std::int64_t> bins(kHistogramBins);
  const double width = (into.high - into.low) / static_cast<double>(kHistogramBins);
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++into.not_finite;
      continue;
    }
    const double at = (static_cast<double>(value) - into.low) / width;
    const double last = static_cast<double>(kHistogramBins - 1);
    ++bins[static_cast<std::size_t>(std::clamp(std::floor(at), 0.0, last))];
  }
  return bins;
}

}  // namespace

std::vector<TensorHistogram> histograms(const TensorSource& file, const TensorSource* original,
                                        const std::unordered_set<std::string>& names) {
  std::unordered_map<std::string, std::size_t> originals;
  if (original)
    for (std::size_t i = 0; i < original->tensors().size(); ++i)
      originals[original->tensors()[i].name] = i;
  std::vector<TensorHistogram> result;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const StoredTensor& tensor = file.tensors()[i];
    if (!names.contains(tensor.name) || !is_real(tensor.dtype) || tensor.elements() < 2) continue;
    const std::vector<float> after = floats(file, i);
    std::vector<float> before;
    const auto found = originals.find(tensor.name);
    if (found != originals.end() && original->tensors()[found->second].shape == tensor.shape)
      before = floats(*original, found->second);
    TensorHistogram histogram{.name = tensor.name};
    if (!set_range(before, histogram) && !set_range(after, histogram)) continue;
    histogram.file = counts(after, histogram);
    if (!before.empty()) histogram.original = counts(before, histogram);
    result.push_back(std::move(histogram));
  }
  return result;
}

}  // namespace gbcompress
