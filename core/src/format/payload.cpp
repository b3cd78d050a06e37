#include "format/payload.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr float kLargestQ8 = 127, kLargestHalf = 65504;

struct Range8 {
  int low = 0, high = 0;
};

Range8 range_of(DType dtype) { return dtype == DType::kI8 ? Range8{-128, 127} : Range8{0, 255}; }

/// The nearest integer of a value of at most 2^24 in magnitude; ties to even, or away from zero.
int nearest(float value, bool even) {
  int whole = static_cast<int>(value);
  const float rest = value - static_cast<float>(whole);
  const bool up = rest > 0.5F || (rest == 0.5F && (!even || whole % 2 != 0));
  const bool down = rest < -0.5F || (rest == -0.5F && (!even || whole % 2 != 0));
  return whole + (up ? 1 : 0) - (down ? 1 : 0);
}

/// NaN becomes 0.
int quantized(float value, int zero, Range8 range, bool even) {
  const auto low = static_cast<float>(range.low - zero),
             high = static_cast<float>(range.high - zero);
  const float bounded = value >= high ? high : value <= low ? low : value == value ? value : 0;
  return std::clamp(nearest(bounded, even) + zero, range.low, range.high);
}

std::vector<float> floats_in(std::span<const std::byte> elements) {
  std::vector<float> values(elements.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), elements.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

std::vector<std::byte> to_affine(std::span<const float> values, const Affine& affine) {
  const Range8 range = range_of(affine.dtype);
  std::vector<std::byte> integers(values.size());
  const std::size_t count = affine.scales.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = i / affine.inner % count;
    integers[i] = static_cast<std::byte>(
        quantized(values[i] / affine.scales[k], affine.zeros[k], range, /*even=*/true));
  }
  return integers;
}

std::optional<std::vector<float>> from_affine(std::span<const std::byte> integers,
                                              const Affine& affine) {
  std::vector<float> values(integers.size());
  const std::size_t count = affine.scales.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t k = i / affine.inner % count;
    const int whole = affine.dtype == DType::kI8 ? std::to_integer<std::int8_t>(integers[i])
                                                 : std::to_integer<std::uint8_t>(integers[i]);
    values[i] = static_cast<float>(whole - affine.zeros[k]) * affine.scales[k];
  }
  if (!std::ranges::equal(to_affine(values, affine), integers)) return {};
  return values;
}

std::optional<std::vector<float>> from_q8_0(std::span<const std::byte> blocks) {
  std::vector<float> values;
  values.reserve(blocks.size() / kQ8Bytes * kQ8Elements);
  for (std::size_t at = 0; at + kQ8Bytes <= blocks.size(); at += kQ8Bytes) {
    std::uint16_t half = 0;
    std::memcpy(&half, blocks.data() + at, sizeof half);
    if ((half & 0x7C00) == 0x7C00) return {};
    const float scale = half_to_float(half);
    for (std::size_t i = sizeof half; i < kQ8Bytes; ++i)
      values.push_back(scale * static_cast<float>(std::to_integer<std::int8_t>(blocks[at + i])));
  }
  return values;
}

std::vector<std::byte> to_q8_0(std::span<const float> values) {
  std::vector<std::byte> blocks;
  blocks.reserve(values.size() / kQ8Elements * kQ8Bytes);
  for (std::size_t at = 0; at + kQ8Elements <= values.size(); at += kQ8Elements) {
    const auto block = values.subspan(at, kQ8Elements);
    float largest = 0;
    for (const float value : block) {
      const float magnitude = value < 0 ? -value : value;
      if (magnitude > largest) largest = magnitude;
    }
    const std::uint16_t half = float_to_half(std::min(largest / kLargestQ8, kLargestHalf));
    const float scale = half_to_float(half);
    const auto* bytes = reinterpret_cast<const std::byte*>(&half);
    blocks.insert(blocks.end(), bytes, bytes + sizeof half);
    for (const float value : block)
      blocks.push_back(static_cast<std::byte>(
          scale == 0 ? 0 : quantized(value / scale, 0, {-127, 127}, /*even=*/false)));
  }
  return blocks;
}

std::vector<std::byte> payload_of(const Hole& hole, std::span<const std::byte> elements,
                                  DType dtype, const std::string& label) {
  if (hole.encoding == PayloadEncoding::kBytes) return {elements.begin(), elements.end()};
  if (hole.encoding == PayloadEncoding::kVarint) return to_varints(elements, dtype);
  const bool q8 = hole.encoding == PayloadEncoding::kQ8_0;
  if (dtype != DType::kF32 || (q8 && elements.size() % (kQ8Elements * sizeof(float)) != 0))
    throw Error(Errc::kCorrupt,
                label + ": in its container, a hole of integers has a tensor of another type");
  const std::vector<float> values = floats_in(elements);
  return q8 ? to_q8_0(values) : to_affine(values, hole.affine);
}

}  // namespace gbcompress
