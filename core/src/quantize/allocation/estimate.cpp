// What compress_weights() takes: a model of its memory and of its work, and the speed of this
// machine.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

/// The program itself, and what each element in work takes beside the file: values, their scaled
/// copy, integers, sections. Elements in work are bounded (for_bounded()).
constexpr std::int64_t kProgramBytes = 12 << 20, kBytesInWork = 8;
constexpr std::int64_t kMostInWork = 1 << 23;
/// Of exact tensors: planes and packed bytes, beside the mapped file.
constexpr double kExactCopies = 1.8;
/// Passes over the sample (steps of an allocation, steps of the search) and over all weights
/// (choices of an integer; equal passes of choosing and coding, reading the file back included).
constexpr double kAllocationPasses = 1.5;
constexpr double kSizeSearchPasses = 4, kSizeChoices = 1.8, kSizePasses = 2.4;
constexpr double kErrorChoices = 3, kErrorPasses = 3;
/// Seconds for each byte of exact tensors, which are packed and read back.
constexpr double kExactSeconds = 8e-9;
/// Bits of the entropy of integers over the Gaussian bound at a relative error, least and most.
constexpr double kLeastOver = -0.6, kMostOver = 0.6;
constexpr double kLeastExact = 0.5;

struct Amounts {
  std::int64_t file = 0, largest = 0, sample = 0;
  std::int64_t exact_bytes = 0;
};

Amounts amounts_of(const BitAllocation& allocation, WeightsEstimate& estimate) {
  Amounts amounts;
  for (const TensorAllocation& tensor : allocation.tensors()) {
    if (tensor.tied) continue;
    const auto bytes = static_cast<std::int64_t>(tensor.source->bytes.size());
    amounts.file += bytes;
    estimate.weights += tensor.elements();
    if (tensor.sample) {
      estimate.quantized += tensor.facts.numbers;
      amounts.largest = std::max(amounts.largest, tensor.facts.numbers);
      amounts.sample += tensor.sample->grid().size();
    } else if (!tensor.unchanged && !tensor.constant) {
      amounts.exact_bytes += bytes;
    }
  }
  return amounts;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void expect_bytes(const WeightsOptions& options, const Amounts& amounts,
                  WeightsEstimate& estimate) {
  const auto exact = static_cast<double>(amounts.exact_bytes);
  if (options.max_bytes) {
    estimate.least_bytes = estimate.most_bytes = *options.max_bytes;
    return;
  }
  const double bound = options.max_error ? -std::log2(*options.max_error) / 2 : 0;
  const auto quantized = static_cast<double>(estimate.quantized);
  const auto bytes = [&](double over) { return std::max(0.1, bound + over) / 8 * quantized; };
  estimate.least_bytes = std::llround(bytes(kLeastOver) + kLeastExact * exact);
  estimate.most_bytes = std::llround(bytes(kMostOver) + exact);
}

}  // namespace

WeightsEstimate estimate_weights(const TensorBundle& weights, const WeightsOptions& options) {
  WeightsEstimate estimate;
  const auto start = Clock::now();
  const TensorBundle distinct = with_equal_shared(weights, options);
  const BitAllocation allocation(distinct, options);
  const double allocated = seconds_since(start);
  const Amounts amounts = amounts_of(allocation, estimate);
  expect_bytes(options, amounts, estimate);
  const std::int64_t in_work = std::min(estimate.quantized, std::max(kMostInWork, amounts.largest));
  estimate.memory_bytes = kProgramBytes + amounts.file + kBytesInWork * in_work +
                          std::llround(kExactCopies * static_cast<double>(amounts.exact_bytes));
  estimate.seconds = allocated + kExactSeconds * static_cast<double>(amounts.exact_bytes);
  if (amounts.sample == 0) return estimate;
  const auto sample = static_cast<double>(amounts.sample);
  const auto all = static_cast<double>(estimate.quantized);
  const bool sized = options.max_bytes.has_value();
  const double searches = sized ? kSizeSearchPasses : 0;
  estimate.values_chosen = std::llround((kAllocationPasses + searches) * sample +
                                        (sized ? kSizeChoices : kErrorChoices) * all);
  const auto pass = Clock::now();
  const double bits = 8 * static_cast<double>(estimate.most_bytes) / std::max(all, 1.0);
  allocation.expected_bytes(
      std::clamp(allocation.start(bits), allocation.lowest(), allocation.highest()));
  const double for_each = seconds_since(pass) / sample;
  estimate.seconds += for_each * (searches * sample + (sized ? kSizePasses : kErrorPasses) * all);
  return estimate;
}

}  // namespace gbcompress
