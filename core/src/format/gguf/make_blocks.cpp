#include "format/gguf/make_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float16.h"
#include "format/gguf/fit_parts.h"

namespace gbcompress::gguf {
namespace {

constexpr std::size_t kMostParts = 16;
using Symbols = std::array<std::uint8_t, kMostBlockSymbols>;

/// What quants of the parts of a block stand for: step * quant - shift.
struct BlockScales {
  std::array<float, kMostParts> step{}, shift{};
};

float half_of(const BlockLayout& layout, std::size_t field, const std::uint8_t* block) {
  std::uint8_t high, low;
  get_symbols(layout.field[field], block, &high);
  get_symbols(layout.field[field + 1], block, &low);
  return half_to_float(static_cast<std::uint16_t>(high << 8 | low));
}

void put_half(const BlockLayout& layout, std::size_t field, float value, std::uint8_t* block) {
  const std::uint16_t half = float_to_half(value);
  const auto high = static_cast<std::uint8_t>(half >> 8), low = static_cast<std::uint8_t>(half);
  put_symbols(layout.field[field], &high, block);
  put_symbols(layout.field[field + 1], &low, block);
}

BlockScales scales_of(const BlockLayout& layout, const std::uint8_t* block) {
  BlockScales scales;
  const float scale = half_of(layout, 0, block);
  const float offset = layout.fields > 4 ? half_of(layout, 2, block) : 0;
  if (layout.parts == 1) {
    scales.step[0] = scale;
    scales.shift[0] = -offset;
    return scales;
  }
  std::array<std::uint8_t, kMostParts> numbers{}, offsets{};
  get_symbols(layout.field[layout.fields > 4 ? 4 : 2], block, numbers.data());
  if (layout.fields > 4) get_symbols(layout.field[5], block, offsets.data());
  for (std::size_t part = 0; part < layout.parts; ++part) {
    const int number = (numbers[part] ^ layout.scale_sign) - layout.scale_zero;
    scales.step[part] = scale * static_cast<float>(number);
    scales.shift[part] = offset * static_cast<float>(offsets[part]);
  }
  return scales;
}

/// The symbols of parts whose step is not 0.
void nearest_symbols(const BlockLayout& layout, const BlockScales& scales, const float* values,
                     std::uint8_t* symbols) {
  const BlockField& field = layout.field[layout.fields - 1U];
  const std::size_t each = field.count / layout.parts;
  const auto least = static_cast<float>(layout.least);
  const float most = least + static_cast<float>((1U << field.bits) - 1);
  for (std::size_t part = 0; part < layout.parts; ++part) {
    const float step = scales.step[part], shift = scales.shift[part];
    if (step == 0) continue;
    for (std::size_t i = part * each; i < (part + 1) * each; ++i) {
      float at = (values[i] + shift) / step;
      at = at > least ? at : least;
      at = at < most ? at : most;
      symbols[i] =
          static_cast<std::uint8_t>((nearest_integer(at) - layout.least) ^ layout.quant_sign);
    }
  }
}

/// How ggml searches the scales and offsets of the parts of a type.
struct PartSearch {
  std::uint32_t type;
  OffsetSearch search;
  float levels;  ///< of scales and offsets
};
constexpr PartSearch kSearches[] = {{10, {3, -0.5F, 15, true}, 15},
                                    {12, {15, -1.0F, 20, false}, 63},
                                    {13, {31, -0.5F, 15, false}, 63}};

/// Integers for numbers from 0 up, and what 1 of them stands for.
float put_levels(const BlockField& field, float levels,
                 const std::array<float, kMostParts>& numbers, std::uint8_t* block) {
  float most = 0;
  for (std::size_t part = 0; part < field.count; ++part) most = std::max(most, numbers[part]);
  std::array<std::uint8_t, kMostParts> symbols{};
  if (most > 0) {
    const float inverse = levels / most;
    for (std::size_t part = 0; part < field.count; ++part)
      symbols[part] = static_cast<std::uint8_t>(
          std::min(static_cast<int>(levels), nearest_integer(inverse * numbers[part])));
  }
  put_symbols(field, symbols.data(), block);
  return most / levels;
}

void offset_parts(const BlockLayout& layout, const PartSearch& how, Rounding rounding,
                  const float* values, std::uint8_t* block, Symbols& symbols) {
  const std::size_t each = kMostBlockSymbols / layout.parts;
  std::array<float, kMostParts> scales{}, offsets{};
  for (std::size_t part = 0; part < layout.parts; ++part) {
    const PartFit fit = fit_offset(how.search, rounding, {values + part * each, each},
                                   symbols.data() + part * each);
    scales[part] = fit.scale;
    offsets[part] = fit.offset;
  }
  put_half(layout, 0, put_levels(layout.field[4], how.levels, scales, block), block);
  put_half(layout, 2, put_levels(layout.field[5], how.levels, offsets, block), block);
}

/// Of Q3_K and Q6_K: the scale of largest magnitude becomes the least number.
/// @return false where all scales are 0
bool signed_parts(const BlockLayout& layout, Rounding rounding, const float* values,
                  std::uint8_t* block, Symbols& symbols) {
  const bool three = layout.least == -4;
  const std::size_t each = kMostBlockSymbols / layout.parts;
  std::array<float, kMostParts> scales{};
  float most = 0, magnitude = 0;
  for (std::size_t part = 0; part < layout.parts; ++part) {
    const std::span<const float> some(values + part * each, each);
    std::uint8_t* const to = symbols.data() + part * each;
    scales[part] = three ? fit_three_bits(rounding, some, to) : fit_six_bits(rounding, some, to);
    const float size = std::abs(scales[part]);
    if (size <= magnitude) continue;
    magnitude = size;
    most = scales[part];
  }
  if (three ? most == 0 : magnitude < kNoScale) return false;
  const float inverse = -static_cast<float>(layout.scale_zero) / most;
  std::array<std::uint8_t, kMostParts> numbers{};
  for (std::size_t part = 0; part < layout.parts; ++part) {
    const int number = std::clamp(nearest_integer(inverse * scales[part]), -int{layout.scale_zero},
                                  int{layout.scale_zero} - 1);
    numbers[part] = static_cast<std::uint8_t>((number + layout.scale_zero) ^ layout.scale_sign);
  }
  put_symbols(layout.field[2], numbers.data(), block);
  put_half(layout, 0, 1 / inverse, block);
  return true;
}

/// Of types whose blocks have one scale.
void one_scale(const BlockLayout& layout, Rounding rounding, const float* values,
               std::uint8_t* block, Symbols& symbols) {
  const std::span<const float> some(values, layout.field[layout.fields - 1U].count);
  const unsigned bits = layout.field[layout.fields - 1U].bits;
  const PartFit fit = bits == 8           ? fit_bytes(some, symbols.data())
                      : layout.fields > 4 ? fit_range(bits, rounding, some, symbols.data())
                                          : fit_largest(bits, rounding, some, symbols.data());
  put_half(layout, 0, fit.scale, block);
  if (layout.fields > 4) put_half(layout, 2, fit.offset, block);
}

void reference_block(const BlockLayout& layout, Rounding rounding, const float* values,
                     std::uint8_t* block) {
  Symbols symbols{};
  if (layout.parts == 1) {
    one_scale(layout, rounding, values, block, symbols);
  } else {
    const auto* const how =
        std::ranges::find(kSearches, layout.type, [](const PartSearch& each) { return each.type; });
    if (how != std::end(kSearches))
      offset_parts(layout, *how, rounding, values, block, symbols);
    else if (!signed_parts(layout, rounding, values, block, symbols) && layout.least != -4)
      return;
    nearest_symbols(layout, scales_of(layout, block), values, symbols.data());
  }
  put_symbols(layout.field[layout.fields - 1U], symbols.data(), block);
}

}  // namespace

void reference_blocks(const BlockLayout& layout, Rounding rounding, std::span<const float> values,
                      std::span<std::byte> blocks) {
  std::fill(blocks.begin(), blocks.end(), std::byte{0});
  auto* block = reinterpret_cast<std::uint8_t*>(blocks.data());
  const auto each = static_cast<std::size_t>(layout.weights());
  for (std::size_t at = 0; at < values.size(); at += each, block += layout.bytes)
    reference_block(layout, rounding, values.data() + at, block);
}

void clear_quants(const BlockLayout& layout, std::span<std::byte> blocks) {
  // A block whose quants alone have all bits set.
  std::array<std::uint8_t, 256> quants{};
  Symbols all;
  all.fill(255);
  put_symbols(layout.field[layout.fields - 1U], all.data(), quants.data());
  for (std::size_t at = 0; at < blocks.size(); at += layout.bytes)
    for (std::size_t i = 0; i < layout.bytes; ++i)
      blocks[at + i] &= static_cast<std::byte>(~quants[i]);
}

void set_nearest_quants(const BlockLayout& layout, std::span<const float> values,
                        std::span<std::byte> blocks) {
  clear_quants(layout, blocks);
  auto* block = reinterpret_cast<std::uint8_t*>(blocks.data());
  const auto each = static_cast<std::size_t>(layout.weights());
  for (std::size_t at = 0; at < values.size(); at += each, block += layout.bytes) {
    Symbols symbols{};
    nearest_symbols(layout, scales_of(layout, block), values.data() + at, symbols.data());
    put_symbols(layout.field[layout.fields - 1U], symbols.data(), block);
  }
}

}  // namespace gbcompress::gguf
