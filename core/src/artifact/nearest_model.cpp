#include <algorithm>
#include <numeric>
#include <vector>

#include "artifact/sections/packing.h"
#include "base/checked.h"
#include "gbcompress/base_model.h"

namespace gbcompress {
namespace {

/// Of the largest tensors so many are looked at, and of each so many bytes.
constexpr std::size_t kTensors = 48, kSample = std::size_t{1} << 16;
/// Of the bytes of a whole file: what a delta has to save, and what makes a later base better.
constexpr double kWorthIt = 0.05, kBetter = 0.01;

/// A part of a tensor's elements.
struct Sample {
  const TensorEntry* tensor;
  std::size_t first, size;
  double weight;  ///< bytes that one of the sample stands for

  std::span<const std::byte> of(const TensorEntry& from) const {
    return from.bytes.subspan(first, size);
  }
};

std::vector<Sample> samples_of(const TensorBundle& model) {
  std::vector<Sample> samples;
  for (const TensorEntry& tensor : model.tensors) {
    if (!has_change(tensor.dtype) || tensor.bytes.empty()) continue;
    const auto element = static_cast<std::size_t>(std::max(8, dtype_bits(tensor.dtype)) / 8);
    const std::size_t size = std::min(tensor.bytes.size(), kSample) / element * element;
    const std::size_t first = (tensor.bytes.size() - size) / 2 / element * element;
    samples.push_back({&tensor, first, size,
                       static_cast<double>(tensor.bytes.size()) / static_cast<double>(size)});
  }
  std::ranges::stable_sort(samples, std::ranges::greater(),
                           [](const Sample& each) { return each.tensor->bytes.size(); });
  if (samples.size() > kTensors) samples.resize(kTensors);
  return samples;
}

double packed_bytes(const Sample& sample) {
  const DType dtype = sample.tensor->dtype;
  const auto packed =
      pack(sample.of(*sample.tensor), std::max(8, dtype_bits(dtype)) / 8, is_real(dtype));
  return sample.weight * static_cast<double>(packed.first.size());
}

/// Of the change since a tensor of another model; of a whole tensor where that is less.
double delta_bytes(const Sample& sample, double whole, const BaseModel& other) {
  const TensorEntry* before = other.find(sample.tensor->name);
  if (!before || before->dtype != sample.tensor->dtype || before->shape != sample.tensor->shape)
    return whole;
  const auto was = sample.of(*before), now = sample.of(*sample.tensor);
  if (std::ranges::equal(was, now)) return 0;
  const std::int64_t elements =
      static_cast<std::int64_t>(sample.size) * 8 / dtype_bits(sample.tensor->dtype);
  const auto change = encode_change(sample.tensor->dtype, std::span(&elements, 1), was, now);
  return std::min(whole, sample.weight * static_cast<double>(change.size()));
}

}  // namespace

std::optional<std::size_t> nearest_model(const TensorBundle& model,
                                         std::span<const BaseModel> others) {
  const std::vector<Sample> samples = samples_of(model);
  std::vector<double> whole;
  whole.reserve(samples.size());
  for (const Sample& sample : samples) whole.push_back(packed_bytes(sample));
  const double all = std::accumulate(whole.begin(), whole.end(), 0.0);
  std::optional<std::size_t> nearest;
  double least = (1 - kWorthIt) * all;
  for (std::size_t i = 0; i < others.size(); ++i) {
    double bytes = 0;
    for (std::size_t n = 0; n < samples.size(); ++n)
      bytes += delta_bytes(samples[n], whole[n], others[i]);
    if (bytes >= least - (nearest ? kBetter * all : 0)) continue;
    least = bytes;
    nearest = i;
  }
  return nearest;
}

}  // namespace gbcompress
