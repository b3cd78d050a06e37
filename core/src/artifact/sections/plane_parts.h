#pragma once
/// Elements as planes, for the writer of sections of planes.

#include <algorithm>
#include <bit>
#include <cstring>

#include "artifact/sections/planes.h"

namespace gbcompress {

/// The element rotated so that the exponent is in front and the sign last, less the base.
template <typename T>
inline T turned(const std::byte* element, T base) {
  T bits;
  std::memcpy(&bits, element, sizeof bits);
  return static_cast<T>(std::rotl(bits, 1) - base);
}

template <typename T>
constexpr T base_of(unsigned base) {
  return static_cast<T>(T{static_cast<std::uint8_t>(base)} << (8 * (sizeof(T) - 1)));
}

/// Writes the planes of `count` elements, the first plane first. An element that the first plane
/// cannot represent beside mantissa bits has the escape there. @return the number of these elements
template <typename T>
std::size_t split(const PlanesForm& form, const std::byte* raw, std::size_t count,
                  std::byte* planes) {
  const T base = base_of<T>(form.base);
  const unsigned mantissa = form.mantissa;
  for (std::size_t plane = 0; plane < sizeof(T); ++plane) {
    const unsigned shift = 8 * static_cast<unsigned>(sizeof(T) - 1 - plane);
    std::byte* const to = planes + plane * count;
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<std::byte>(
          static_cast<T>(turned<T>(raw + i * sizeof(T), base) << mantissa) >> shift);
  }
  if (mantissa == 0) return 0;
  std::size_t beyond = 0;
  const auto window = static_cast<T>(static_cast<T>(~T{0}) >> mantissa);
  const auto escape = static_cast<std::byte>(form.escape.value_or(0));
  for (std::size_t i = 0; i < count; ++i) {
    const bool out = turned<T>(raw + i * sizeof(T), base) > window;
    beyond += out;
    planes[i] = out ? escape : planes[i];
  }
  return beyond;
}

/// The same of elements of two bytes in one pass, in blocks whose elements 16 bits can count.
inline std::size_t split_pairs(const PlanesForm& form, const std::byte* raw, std::size_t count,
                               std::byte* planes) {
  constexpr std::size_t kBlock = std::size_t{1} << 15;
  const auto base = base_of<std::uint16_t>(form.base);
  const unsigned mantissa = form.mantissa;
  const auto window = static_cast<std::uint16_t>(0xffff >> mantissa);
  const auto escape = static_cast<std::byte>(form.escape.value_or(0));
  std::size_t beyond = 0;
  for (std::size_t block = 0; block < count; block += kBlock) {
    const std::byte* const from = raw + 2 * block;
    std::byte *const first = planes + block, *const second = planes + count + block;
    const std::size_t size = std::min(kBlock, count - block);
    std::uint16_t out = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const auto bits = turned<std::uint16_t>(from + 2 * i, base);
      const auto shifted = static_cast<std::uint16_t>(bits << mantissa);
      const bool is_out = bits > window;
      out = static_cast<std::uint16_t>(out + is_out);
      first[i] = is_out ? escape : static_cast<std::byte>(shifted >> 8);
      second[i] = static_cast<std::byte>(shifted & 0xff);
    }
    beyond += out;
  }
  return beyond;
}

inline std::size_t split(const PlanesForm& form, std::span<const std::byte> raw,
                         std::byte* planes) {
  const std::size_t count = raw.size() / form.size;
  if (form.size == 1) return split<std::uint8_t>(form, raw.data(), count, planes);
  if (form.size == 2) return split_pairs(form, raw.data(), count, planes);
  if (form.size == 4) return split<std::uint32_t>(form, raw.data(), count, planes);
  return split<std::uint64_t>(form, raw.data(), count, planes);
}

template <typename T>
std::size_t set_zeros_apart(const PlanesForm& form, const std::byte* raw, std::size_t count,
                            std::byte* planes) {
  const auto escape = static_cast<std::byte>(form.escape.value_or(0));
  for (std::size_t i = 0; i < count; ++i) {
    // The sign is the lowest bit.
    const auto bits = turned<T>(raw + i * sizeof(T), T{0});
    const bool taken = std::to_integer<unsigned>(planes[i]) <= kMostZero;
    planes[i] = bits <= kMostZero ? static_cast<std::byte>(bits) : taken ? escape : planes[i];
  }
  std::size_t some = 0;
  for (std::size_t plane = 1; plane < sizeof(T); ++plane) {
    std::byte* const bytes = planes + plane * count;
    some = 0;
    for (std::size_t i = 0; i < count; ++i) {
      bytes[some] = bytes[i];
      some += std::to_integer<unsigned>(planes[i]) > kMostZero;
    }
  }
  return some;
}

/// Sets zeros apart in the planes that split() wrote: elements whose first byte is a zero's get the
/// escape. @return how many bytes each other plane has now
inline std::size_t set_zeros_apart(const PlanesForm& form, std::span<const std::byte> raw,
                                   std::byte* planes) {
  const std::size_t count = raw.size() / form.size;
  if (form.size == 2) return set_zeros_apart<std::uint16_t>(form, raw.data(), count, planes);
  if (form.size == 4) return set_zeros_apart<std::uint32_t>(form, raw.data(), count, planes);
  return set_zeros_apart<std::uint64_t>(form, raw.data(), count, planes);
}

/// Of the bytes of elements that are no zeros.
inline double mean_of(std::span<const std::byte> run, bool zeros_apart) {
  std::uint32_t sum = 0, count = 0;
  const unsigned least = zeros_apart ? kMostZero + 1 : 0;
  for (const std::byte byte : run) {
    const auto value = std::to_integer<std::uint32_t>(byte);
    const bool counts = value >= least;
    sum += counts ? value : 0;
    count += counts;
  }
  return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
}

/// The form and tables of a section, and the table of a run.
struct PlanesChoice {
  PlanesForm form;
  /// Of each plane, the first plane first: up to 16 of that, else up to one; none: it is not coded.
  std::vector<std::vector<codec::ByteWidths>> tables;
  std::vector<Plane> kinds;    ///< of planes
  std::vector<double> bounds;  ///< the class of a run is the number of bounds that its mean reaches
  double share = 1;            ///< estimated size of the section over that of the elements

  std::uint8_t class_of(std::span<const std::byte> run) const {
    const auto above =
        std::upper_bound(bounds.begin(), bounds.end(), mean_of(run, form.zeros_apart));
    return static_cast<std::uint8_t>(above - bounds.begin());
  }
};

PlanesChoice choose_planes(std::span<const std::byte> raw, std::size_t size);

}  // namespace gbcompress
