#include "format/gguf/block_fields.h"

#include <algorithm>
#include <cstring>

namespace gbcompress::gguf {
namespace {

using enum BlockContext;

constexpr BlockField byte_at(std::uint8_t offset, BlockContext context = kNone) {
  return {.context = context, .range = {{{.count = 1, .offset = offset}}}};
}
constexpr BlockField high(std::uint8_t half) {
  return byte_at(static_cast<std::uint8_t>(half + 1));
}
constexpr BlockField low(std::uint8_t half) { return byte_at(half, kHalf); }

/// Quants whose bits lie together.
constexpr BlockField quants(std::uint16_t count, std::uint8_t offset, std::uint8_t stride,
                            std::uint8_t bits, BlockContext context = kNone) {
  return {.count = count,
          .bits = bits,
          .joined = static_cast<std::uint8_t>(8 / bits),
          .context = context,
          .range = {{{.count = count, .offset = offset, .stride = stride, .width = bits}}}};
}
/// Quants whose highest bits lie apart.
constexpr BlockField with_high(BlockField low_bits, std::uint8_t offset, std::uint8_t stride,
                               std::uint8_t bits) {
  low_bits.range[1] = {.count = low_bits.count,
                       .offset = offset,
                       .stride = stride,
                       .width = bits,
                       .to = low_bits.bits};
  low_bits.bits = static_cast<std::uint8_t>(low_bits.bits + bits);
  low_bits.joined = static_cast<std::uint8_t>(8 / low_bits.bits);
  low_bits.ranges = 2;
  return low_bits;
}

/// Eight numbers of six bits: four lie in the low bits of four bytes, the others in four bits of
/// other bytes and the high bits of those.
constexpr BlockField six_bits(std::uint8_t first, std::uint8_t nibbles, std::uint8_t shift,
                              BlockContext context) {
  return {.count = 8,
          .bits = 6,
          .context = context,
          .ranges = 3,
          .range = {
              {{.count = 4, .offset = first, .stride = 4, .width = 6},
               {.first = 4, .count = 4, .offset = nibbles, .stride = 4, .width = 4, .shift = shift},
               {.first = 4,
                .count = 4,
                .offset = first,
                .stride = 4,
                .width = 2,
                .shift = 6,
                .to = 4}}}};
}
constexpr BlockField nibbles_of(std::uint8_t offset, std::uint8_t shift, BlockContext context) {
  return {.count = 16,
          .bits = 4,
          .context = context,
          .range = {{{.count = 16, .offset = offset, .stride = 16, .width = 4, .shift = shift}}}};
}

constexpr BlockField kScales = six_bits(4, 12, 0, kNone), kOffsets = six_bits(8, 12, 4, kScale);
constexpr BlockField kScales3 = {
    .count = 16,
    .bits = 6,
    .ranges = 2,
    .range = {{{.count = 16, .offset = 96, .stride = 8, .width = 4},
               {.count = 16, .offset = 104, .stride = 4, .width = 2, .to = 4}}}};
constexpr BlockField kScales6 = {.count = 16,
                                 .range = {{{.count = 16, .offset = 192, .stride = 16}}}};

constexpr BlockLayout of_halves(std::uint32_t type, std::uint8_t bytes, std::int16_t least,
                                BlockField one) {
  return {
      .type = type, .bytes = bytes, .fields = 3, .least = least, .field = {{high(0), low(0), one}}};
}
constexpr BlockLayout with_offset(std::uint32_t type, std::uint8_t bytes, BlockField one) {
  return {.type = type,
          .bytes = bytes,
          .fields = 5,
          .field = {{high(0), low(0), high(2), low(2), one}}};
}
/// @param half  where the scale is, and the offset behind it
constexpr BlockLayout with_offsets(std::uint32_t type, std::uint8_t bytes, std::uint8_t parts,
                                   std::uint8_t half, BlockField scales, BlockField offsets,
                                   BlockField one) {
  const auto next = static_cast<std::uint8_t>(half + 2);
  return {.type = type,
          .bytes = bytes,
          .fields = 7,
          .parts = parts,
          .field = {{high(half), low(half), high(next), low(next), scales, offsets, one}}};
}
constexpr BlockLayout kQ8 = {.type = 8,
                             .bytes = 34,
                             .fields = 3,
                             .least = -128,
                             .quant_sign = 128,
                             .field = {{high(0), low(0), quants(32, 2, 32, 8)}}};
constexpr BlockLayout kIq4 = {.type = 20,
                              .bytes = 18,
                              .fields = 3,
                              .even = false,
                              .field = {{high(0), low(0), quants(32, 2, 16, 4)}}};
constexpr BlockLayout kQ3 = {
    .type = 11,
    .bytes = 110,
    .fields = 4,
    .parts = 16,
    .least = -4,
    .scale_zero = 32,
    .field = {{high(108), low(108), kScales3, with_high(quants(256, 32, 32, 2), 0, 32, 1)}}};
constexpr BlockLayout kQ6 = {
    .type = 14,
    .bytes = 210,
    .fields = 4,
    .parts = 16,
    .least = -32,
    .scale_sign = 128,
    .scale_zero = 128,
    .field = {{high(208), low(208), kScales6, with_high(quants(256, 0, 64, 4), 128, 32, 2)}}};

/// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL.
constexpr BlockLayout kLayouts[] = {
    of_halves(2, 18, -8, quants(32, 2, 16, 4)),
    with_offset(3, 20, quants(32, 4, 16, 4, kZero)),
    of_halves(6, 22, -16, with_high(quants(32, 6, 16, 4), 2, 1, 1)),
    with_offset(7, 24, with_high(quants(32, 8, 16, 4, kZero), 4, 1, 1)),
    kQ8,
    with_offsets(10, 84, 16, 80, nibbles_of(0, 0, kNone), nibbles_of(0, 4, kScale),
                 quants(256, 16, 32, 2, kZero)),
    kQ3,
    with_offsets(12, 144, 8, 0, kScales, kOffsets, quants(256, 16, 32, 4, kZero)),
    with_offsets(13, 176, 8, 0, kScales, kOffsets,
                 with_high(quants(256, 48, 32, 4, kZero), 16, 32, 1)),
    kQ6,
    kIq4,
};

/// A range of some blocks.
struct RangeOfBlocks {
  const BitRange& range;
  std::size_t symbols, bytes;  ///< of a block
  std::size_t blocks;
};

/// Calls visit(symbol, byte, shift) for the first symbols of runs of `stride` ones.
template <typename Visit>
void for_runs(const BitRange& range, const Visit& visit) {
  const unsigned slots = (8U - range.shift) / range.width;
  unsigned byte = range.offset;
  for (unsigned t = 0, slot = 0; t < range.count; t += range.stride) {
    visit(range.first + t, byte, range.shift + range.width * slot);
    if (++slot < slots) continue;
    slot = 0;
    byte += range.stride;
  }
}

void put_range(const RangeOfBlocks& all, const std::uint8_t* symbols, std::uint8_t* block) {
  const BitRange& range = all.range;
  const unsigned mask = (1U << range.width) - 1;
  for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes)
    for_runs(range, [&](unsigned symbol, unsigned byte, unsigned shift) {
      for (unsigned i = 0; i < range.stride; ++i)
        block[byte + i] = static_cast<std::uint8_t>(
            block[byte + i] | (symbols[symbol + i] >> range.to & mask) << shift);
    });
}

void get_range(const RangeOfBlocks& all, const std::uint8_t* block, std::uint8_t* symbols) {
  const BitRange& range = all.range;
  const unsigned mask = (1U << range.width) - 1;
  for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes)
    for_runs(range, [&](unsigned symbol, unsigned byte, unsigned shift) {
      for (unsigned i = 0; i < range.stride; ++i)
        symbols[symbol + i] = static_cast<std::uint8_t>(
            symbols[symbol + i] | (block[byte + i] >> shift & mask) << range.to);
    });
}

#ifndef GBC_FREESTANDING
/// The same of ranges that fill whole bytes: loops of known length, which become vectors.
template <unsigned kStride, unsigned kWidth, unsigned kTo>
struct WholeBytes {
  static constexpr unsigned kSlots = 8 / kWidth;
  static constexpr auto kMask = static_cast<std::uint8_t>((1U << kWidth) - 1);

  static bool fits(const BitRange& range) {
    return range.stride == kStride && range.width == kWidth && range.to == kTo &&
           range.shift == 0 && range.count % (kStride * kSlots) == 0;
  }
  static void put(const RangeOfBlocks& all, const std::uint8_t* symbols, std::uint8_t* block) {
    for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes) {
      const std::uint8_t* from = symbols + all.range.first;
      std::uint8_t* to = block + all.range.offset;
      for (unsigned t = 0; t < all.range.count; t += kStride * kSlots) {
        std::array<std::uint8_t, kStride> byte{};
        for (unsigned slot = 0; slot < kSlots; ++slot)
          for (unsigned i = 0; i < kStride; ++i)
            byte[i] = static_cast<std::uint8_t>(byte[i] | (from[slot * kStride + i] >> kTo & kMask)
                                                              << (kWidth * slot));
        for (unsigned i = 0; i < kStride; ++i) to[i] = static_cast<std::uint8_t>(to[i] | byte[i]);
        from += kStride * kSlots;
        to += kStride;
      }
    }
  }
  static void get(const RangeOfBlocks& all, const std::uint8_t* block, std::uint8_t* symbols) {
    for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes) {
      const std::uint8_t* from = block + all.range.offset;
      std::uint8_t* to = symbols + all.range.first;
      for (unsigned t = 0; t < all.range.count; t += kStride * kSlots) {
        std::array<std::uint8_t, kStride> byte;
        std::copy_n(from, kStride, byte.begin());
        for (unsigned slot = 0; slot < kSlots; ++slot)
          for (unsigned i = 0; i < kStride; ++i)
            to[slot * kStride + i] = static_cast<std::uint8_t>(
                to[slot * kStride + i] | (byte[i] >> (kWidth * slot) & kMask) << kTo);
        from += kStride;
        to += kStride * kSlots;
      }
    }
  }
};

/// The same of bits that follow each other in bytes.
struct BitRow {
  static bool fits(const BitRange& range) {
    return range.stride == 1 && range.width == 1 && range.shift == 0 && range.count % 8 == 0;
  }
  static void put(const RangeOfBlocks& all, const std::uint8_t* symbols, std::uint8_t* block) {
    for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes)
      for (unsigned t = 0; t < all.range.count; t += 8) {
        std::uint64_t eight;
        std::memcpy(&eight, symbols + all.range.first + t, sizeof eight);
        eight = eight >> all.range.to & 0x0101010101010101U;
        std::uint8_t& to = block[all.range.offset + t / 8];
        to = static_cast<std::uint8_t>(to | (eight * 0x0102040810204080U) >> 56);
      }
  }
  static void get(const RangeOfBlocks& all, const std::uint8_t* block, std::uint8_t* symbols) {
    for (std::size_t n = 0; n < all.blocks; ++n, symbols += all.symbols, block += all.bytes)
      for (unsigned t = 0; t < all.range.count; t += 8) {
        std::uint64_t eight, before;
        std::memcpy(&before, symbols + all.range.first + t, sizeof before);
        eight = block[all.range.offset + t / 8] * 0x0101010101010101U & 0x8040201008040201U;
        eight = (eight + 0x7f7f7f7f7f7f7f7fU) >> 7 & 0x0101010101010101U;
        eight = before | eight << all.range.to;
        std::memcpy(symbols + all.range.first + t, &eight, sizeof eight);
      }
  }
};

/// Calls body(form) with the first of the forms that fits. @return false where none does
template <typename... Forms, typename Body>
bool with_form(const BitRange& range, const Body& body) {
  return ((Forms::fits(range) && (body(Forms()), true)) || ...);
}
template <typename Body>
bool with_fast_form(const BitRange& range, const Body& body) {
  return with_form<WholeBytes<16, 4, 0>, WholeBytes<32, 4, 0>, WholeBytes<64, 4, 0>,
                   WholeBytes<32, 2, 0>, WholeBytes<32, 8, 0>, WholeBytes<16, 8, 0>,
                   WholeBytes<32, 1, 2>, WholeBytes<32, 1, 4>, WholeBytes<32, 2, 4>, BitRow>(range,
                                                                                             body);
}
#endif

}  // namespace

const BlockLayout* find_block_layout(std::uint32_t type) noexcept {
  for (const BlockLayout& layout : kLayouts)
    if (layout.type == type) return &layout;
  return nullptr;
}

void put_symbols(const BlockField& field, const std::uint8_t* symbols, std::uint8_t* block,
                 std::size_t blocks, std::size_t bytes) noexcept {
  for (std::size_t r = 0; r < field.ranges; ++r) {
    const RangeOfBlocks all{field.range[r], field.count, bytes, blocks};
#ifndef GBC_FREESTANDING
    if (with_fast_form(field.range[r], [&](auto form) { form.put(all, symbols, block); })) continue;
#endif
    put_range(all, symbols, block);
  }
}

void get_symbols(const BlockField& field, const std::uint8_t* block, std::uint8_t* symbols,
                 std::size_t blocks, std::size_t bytes) noexcept {
  std::fill_n(symbols, field.count * blocks, std::uint8_t{0});
  for (std::size_t r = 0; r < field.ranges; ++r) {
    const RangeOfBlocks all{field.range[r], field.count, bytes, blocks};
#ifndef GBC_FREESTANDING
    if (with_fast_form(field.range[r], [&](auto form) { form.get(all, block, symbols); })) continue;
#endif
    get_range(all, block, symbols);
  }
}

}  // namespace gbcompress::gguf
