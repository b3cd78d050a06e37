// Which tensors of few values are stored exactly, because that takes no more than rounding them.
#include <algorithm>
#include <cmath>

#include "artifact/sections/packing.h"
#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {
namespace {

/// Tensors of fewer bits a value are exact at every target: rounding leaves nothing of them.
constexpr double kAlwaysExact = 2;
/// An exact tensor is worth that much more than one with errors.
constexpr double kWorth = 1.15;
/// Bytes that tell whether zstd finds runs and copies.
constexpr std::size_t kPiece = 1 << 16;

/// Bits a value that the tensor takes exactly, about.
double exact_bits(const TensorAllocation& tensor) {
  const auto bytes = tensor.source->bytes;
  const auto count = static_cast<double>(tensor.elements());
  const double coded = tensor.levels->bits / count;
  if (coded <= kAlwaysExact) return coded;
  const auto piece = bytes.first(std::min(bytes.size(), kPiece));
  const double share =
      static_cast<double>(compress_fast(piece).size()) / static_cast<double>(piece.size());
  return std::min(coded, share * 8 * static_cast<double>(bytes.size()) / count);
}

/// Bits a value that rounding takes where the allocation has that many a weight.
double rounded_bits_at(const TensorAllocation& tensor, double bits) {
  return rounded_bits(*tensor.levels, std::exp2(kGaussianBits - bits)) /
         static_cast<double>(tensor.elements());
}

struct Candidate {
  TensorAllocation* tensor;
  double bits;
};

}  // namespace

/// Tensors are taken from the cheapest on, so that what they leave is there for the others.
void BitAllocation::prefer_exact(const WeightsOptions& options) {
  if (is_exact(options)) return;
  std::vector<Candidate> candidates;
  double numbers = 0, left = 8 * static_cast<double>(options.max_bytes.value_or(0));
  for (TensorAllocation& tensor : tensors_) {
    if (tensor.tied || tensor.constant || tensor.unchanged) continue;
    const auto count = static_cast<double>(tensor.elements());
    if (tensor.kind == WeightKind::kExact)
      left -= tensor.levels ? tensor.levels->bits
                            : 8 * static_cast<double>(tensor.source->bytes.size());
    else
      numbers += count;
    if (tensor.kind != WeightKind::kExact && tensor.levels)
      candidates.push_back({&tensor, exact_bits(tensor)});
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::bits);
  for (const auto& [tensor, bits] : candidates) {
    const auto count = static_cast<double>(tensor->elements());
    // Of a Gaussian source at a target error.
    const double mean =
        options.max_error ? -std::log2(*options.max_error) / 2 : std::max(left, 0.0) / numbers;
    if (bits > kAlwaysExact && bits > kWorth * rounded_bits_at(*tensor, mean)) {
      tensor->levels = nullptr;
      continue;
    }
    tensor->kind = WeightKind::kExact;
    tensor->axis = -1;
    tensor->assumed = false;
    left -= bits * count;
    numbers -= count;
  }
}

std::vector<std::string> BitAllocation::notes() const {
  std::vector<NotFiniteTensor> broken;
  std::size_t packed = 0;
  for (const TensorAllocation& tensor : tensors_) {
    if (tensor.not_finite) broken.push_back({tensor.source->name, *tensor.not_finite});
    packed += tensor.packed;
  }
  std::vector<std::string> notes;
  if (!broken.empty()) notes.push_back(not_finite_note(broken));
  if (packed > 0)
    notes.push_back("the model is quantized already: " + std::to_string(packed) +
                    (packed == 1 ? " tensor scales" : " tensors scale") +
                    " its packed weights and " + (packed == 1 ? "stays" : "stay") + " exact");
  return notes;
}

}  // namespace gbcompress
