#include "artifact/narrow.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Sign apart, the bits of infinity; none has more but a NaN.
constexpr std::uint64_t infinity_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF16:
      return 0x7c00;
    case DType::kBF16:
      return 0x7f80;
    case DType::kF32:
      return 0x7f800000;
    default:
      return std::uint64_t{0x7ff} << 52;
  }
}

/// From which magnitude on a value is rounded to infinity.
double limit_of(DType dtype) noexcept {
  if (dtype == DType::kF16) return 65520;
  return dtype == DType::kBF16 ? 0x1.ffp127 : 0x1.ffffffp127;
}

std::uint64_t magnitude_bits(const std::byte* at, DType dtype) noexcept {
  if (dtype_bits(dtype) == 16) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits & 0x7fffu;
  }
  if (dtype == DType::kF32) {
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits & 0x7fffffffu;
  }
  std::uint64_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits & ~(std::uint64_t{1} << 63);
}

double magnitude(const std::byte* at, DType dtype) noexcept {
  const std::uint64_t bits = magnitude_bits(at, dtype);
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  // A float16 fits every other type.
  const auto wide = static_cast<std::uint32_t>(dtype == DType::kBF16 ? bits << 16 : bits);
  return static_cast<double>(std::bit_cast<float>(wide));
}

/// Whether an element has these bits beside its sign; blocks without an exit, which become vectors.
template <typename Bits>
bool holds(std::span<const std::byte> bytes, Bits wanted) noexcept {
  constexpr std::size_t kBlock = 4096;
  constexpr auto kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  for (std::size_t first = 0; first < bytes.size(); first += kBlock) {
    const auto block = bytes.subspan(first, std::min(kBlock, bytes.size() - first));
    Bits found = 0;
    for (std::size_t i = 0; i < block.size(); i += sizeof(Bits)) {
      Bits bits;
      std::memcpy(&bits, block.data() + i, sizeof bits);
      found |= static_cast<Bits>((bits & kMagnitude) == wanted);
    }
    if (found) return true;
  }
  return false;
}

bool holds_infinity(std::span<const std::byte> bytes, DType dtype) noexcept {
  const std::uint64_t infinity = infinity_of(dtype);
  if (dtype_bits(dtype) == 16) return holds(bytes, static_cast<std::uint16_t>(infinity));
  if (dtype == DType::kF32) return holds(bytes, static_cast<std::uint32_t>(infinity));
  return holds(bytes, infinity);
}

/// The largest finite magnitude.
double largest(std::span<const std::byte> bytes, DType dtype) noexcept {
  const auto size = static_cast<std::size_t>(dtype_bits(dtype) / 8);
  const std::uint64_t infinity = infinity_of(dtype);
  double most = 0;
  for (std::size_t i = 0; i < bytes.size(); i += size)
    if (magnitude_bits(bytes.data() + i, dtype) < infinity)
      most = std::max(most, magnitude(bytes.data() + i, dtype));
  return most;
}

/// "71000", or "1.25e+30" above a million.
std::string number_text(double value) {
  if (value < 1e6) return std::to_string(static_cast<std::int64_t>(value));
  int exponent = 0;
  while (value >= 10) {
    value /= 10;
    ++exponent;
  }
  const auto hundredths = static_cast<int>(value * 100);
  const int rest = hundredths % 100;
  return std::to_string(hundredths / 100) + (rest < 10 ? ".0" : ".") + std::to_string(rest) + "e+" +
         std::to_string(exponent);
}

}  // namespace

void check_range(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                 std::span<const std::byte> made, const DecodeOptions& options) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const bool wider = entry.dtype == DType::kF16 ||
                     (entry.dtype == DType::kBF16 && dtype == DType::kF32) || !is_real(entry.dtype);
  if (entry.dtype == dtype || wider || !holds_infinity(made, dtype)) return;
  const double most = largest(decode_tensor(artifact, tensor, options), entry.dtype);
  if (most < limit_of(dtype)) return;
  throw Error(Errc::kUsage, printable(entry.name) + " holds magnitudes up to " + number_text(most) +
                                ", which " + std::string(dtype_name(dtype)) +
                                " does not represent; read it as " +
                                (most < limit_of(DType::kBF16)
                                     ? "F32"
                                     : "its own type, " + std::string(dtype_name(entry.dtype))));
}

}  // namespace gbcompress
