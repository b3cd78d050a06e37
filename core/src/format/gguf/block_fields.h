#pragma once
/// What the blocks of ggml's quantized types consist of: scales, offsets and quants, which lie in
/// bits of the block's bytes (docs/reference/blocks.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gbcompress::gguf {

/// Symbols of a field in a block: symbol first + t, t below count, has `width` bits, its bit `to`
/// and up, in byte offset + t / (stride * slots) * stride + t mod stride of the block, from bit
/// shift + width * (t / stride mod slots) on. A byte has slots = (8 - shift) / width of them.
struct BitRange {
  std::uint16_t first = 0, count = 0;
  std::uint8_t offset = 0, stride = 1, width = 8, shift = 0, to = 0;
};

/// The class of a symbol, 0 to 15, which chooses its table.
enum class BlockContext : std::uint8_t {
  kNone,
  kHalf,   ///< the low byte of a half: the two lowest bits of the high byte, the field before
  kScale,  ///< the four highest bits of the symbol of the same place in the field before
  kZero,   ///< a quant: where 0 lies among the quants of its scale and offset
};

struct BlockField {
  std::uint16_t count = 1;  ///< symbols of a block
  std::uint8_t bits = 8;    ///< of a symbol
  std::uint8_t joined = 1;  ///< symbols of a coded byte
  BlockContext context = BlockContext::kNone;
  std::uint8_t ranges = 1;
  std::array<BitRange, 3> range = {};

  std::size_t bytes() const noexcept { return count / joined; }  ///< coded, of a block
};

inline constexpr std::size_t kMostBlockFields = 7, kMostBlockSymbols = 256;

/// The first fields are the two bytes of the scale, the higher one first; where there is an offset,
/// its two bytes follow; then scales and offsets of parts of the block, if any; the quants are
/// last.
struct BlockLayout {
  std::uint32_t type = 0;  ///< ggml's number
  std::uint8_t bytes = 0;  ///< of a block
  std::uint8_t fields = 0;
  std::uint8_t parts = 1;  ///< of a block, that have a scale and an offset each
  /// Quants of types that space them evenly are (symbol ^ quant_sign) + least.
  bool even = true;
  std::int16_t least = 0;
  std::uint8_t quant_sign = 0;
  /// Scales of parts are (symbol ^ scale_sign) - scale_zero.
  std::uint8_t scale_sign = 0, scale_zero = 0;
  std::array<BlockField, kMostBlockFields> field = {};

  std::int64_t weights() const noexcept { return field[fields - 1U].count; }
  std::span<const BlockField> all() const noexcept { return {field.data(), fields}; }
};

/// nullptr for types that are not coded by fields.
const BlockLayout* find_block_layout(std::uint32_t type) noexcept;

/// Puts the symbols of a field into its bits, which are 0.
/// @param symbols  [blocks][field.count]
/// @param bytes    from one block to the next
void put_symbols(const BlockField& field, const std::uint8_t* symbols, std::uint8_t* block,
                 std::size_t blocks = 1, std::size_t bytes = 0) noexcept;
/// The opposite.
void get_symbols(const BlockField& field, const std::uint8_t* block, std::uint8_t* symbols,
                 std::size_t blocks = 1, std::size_t bytes = 0) noexcept;

}  // namespace gbcompress::gguf
