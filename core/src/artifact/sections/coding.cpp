#include "artifact/sections/coding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/float16.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

template <typename F>
void for_each(const ParameterBlock& block, std::int64_t tiles, std::int64_t parameters, F&& visit) {
  for (std::int64_t t = 0; t < tiles; ++t)
    for (std::int64_t p = 0; p < block.count; ++p)
      visit(static_cast<std::size_t>(t * parameters + block.first + p));
}

template <typename T>
void store(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <typename T>
T fetch(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

void encode_i8(const GNetSpec& spec, std::span<const float> theta, std::vector<std::byte>& bytes,
               const std::string& label) {
  const auto blocks = gnet_blocks(spec);
  const std::int64_t parameters = gnet_parameters(spec);
  const std::int64_t tiles = static_cast<std::int64_t>(theta.size()) / parameters;
  const std::size_t start = blocks.size() * sizeof(float);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    float largest = 0;
    for_each(blocks[b], tiles, parameters,
             [&](std::size_t n) { largest = std::max(largest, std::abs(theta[n])); });
    const float scale = largest / 127.0f;
    if (!std::isfinite(127.0f * scale))
      throw Error(Errc::kNonFinite, label + " holds a g-net parameter too large for int8 coding");
    store(bytes, b * sizeof scale, scale);
    if (scale == 0) continue;
    for_each(blocks[b], tiles, parameters, [&](std::size_t n) {
      const float q = std::clamp(std::nearbyint(theta[n] / scale), -127.0f, 127.0f);
      store(bytes, start + n, static_cast<std::int8_t>(q));
    });
  }
}

void decode_i8(const GNetSpec& spec, std::span<const std::byte> bytes, std::vector<float>& theta,
               const std::string& label) {
  const auto blocks = gnet_blocks(spec);
  const std::int64_t parameters = gnet_parameters(spec);
  const std::int64_t tiles = static_cast<std::int64_t>(theta.size()) / parameters;
  const std::size_t start = blocks.size() * sizeof(float);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto scale = fetch<float>(bytes, b * sizeof(float));
    if (std::signbit(scale) || !std::isfinite(127.0f * scale))
      throw Error(Errc::kCorrupt, label + " has a scale that is not a number of at least 0");
    for_each(blocks[b], tiles, parameters, [&](std::size_t n) {
      const auto q = fetch<std::int8_t>(bytes, start + n);
      if (q == -128)
        throw Error(Errc::kCorrupt, label + " holds -128, which int8 coding does not use");
      theta[n] = static_cast<float>(q) * scale;
    });
  }
}

void refuse_coded(Coding coding) {
  if (coding == Coding::kCoded)
    throw Error(Errc::kUsage, "coded g-nets need integers and step sizes, not rounded values");
}

}  // namespace

std::string_view coding_name(Coding coding) noexcept {
  switch (coding) {
    case Coding::kF32:
      return "fp32";
    case Coding::kF16:
      return "fp16";
    case Coding::kI8:
      return "int8";
    case Coding::kCoded:
      return "coded";
  }
  return "";
}

std::int64_t element_bytes(Coding coding) noexcept {
  return coding == Coding::kF32 ? 4 : coding == Coding::kF16 ? 2 : 1;
}

std::int64_t coded_bytes(const GNetSpec& spec, Coding coding) {
  refuse_coded(coding);
  const char* what = "the g-nets of a tensor";
  const std::int64_t numbers = checked_mul(spec_parameters(spec), element_bytes(coding), what);
  if (coding != Coding::kI8) return numbers;
  const auto scales = static_cast<std::int64_t>(gnet_blocks(spec).size() * sizeof(float));
  return checked_add(numbers, scales, what);
}

std::vector<std::byte> encode_theta(const GNetSpec& spec, Coding coding,
                                    std::span<const float> theta, const std::string& label) {
  if (static_cast<std::int64_t>(theta.size()) != spec_parameters(spec))
    throw Error(Errc::kShapeMismatch, label + " has " + std::to_string(theta.size()) +
                                          " g-net parameters, and its specification needs " +
                                          std::to_string(spec_parameters(spec)));
  for (float value : theta)
    if (!std::isfinite(value))
      throw Error(Errc::kNonFinite, label + " has a g-net parameter that is NaN or infinite");
  std::vector<std::byte> bytes(static_cast<std::size_t>(coded_bytes(spec, coding)));
  switch (coding) {
    case Coding::kF32:
      std::memcpy(bytes.data(), theta.data(), bytes.size());
      break;
    case Coding::kF16:
      for (std::size_t n = 0; n < theta.size(); ++n) {
        const std::uint16_t half = float_to_half(theta[n]);
        if ((half & 0x7C00) == 0x7C00)
          throw Error(Errc::kNonFinite, label + " has a g-net parameter of " +
                                            std::to_string(theta[n]) +
                                            ", too large for fp16 coding; choose fp32 or int8");
        store(bytes, n * sizeof half, half);
      }
      break;
    case Coding::kI8:
      encode_i8(spec, theta, bytes, label);
      break;
    case Coding::kCoded:
      break;  // refused by coded_bytes()
  }
  return bytes;
}

std::vector<float> decode_theta(const GNetSpec& spec, Coding coding,
                                std::span<const std::byte> bytes, const std::string& label) {
  refuse_coded(coding);
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  switch (coding) {
    case Coding::kF32:
      std::memcpy(theta.data(), bytes.data(), bytes.size());
      break;
    case Coding::kF16:
      for (std::size_t n = 0; n < theta.size(); ++n)
        theta[n] = half_to_float(fetch<std::uint16_t>(bytes, n * 2));
      break;
    case Coding::kI8:
      decode_i8(spec, bytes, theta, label);
      break;
    case Coding::kCoded:
      break;
  }
  for (float value : theta)
    if (!std::isfinite(value))
      throw Error(Errc::kCorrupt, label + " holds a g-net parameter that is NaN or infinite");
  return theta;
}

std::vector<float> round_trip(const GNetSpec& spec, Coding coding, std::span<const float> theta) {
  validate(spec);
  return decode_theta(spec, coding, encode_theta(spec, coding, theta, "a tensor"), "a tensor");
}

}  // namespace gbcompress
