#pragma once
/// Decodes one block of lanes (docs/reference/lanes.md, "A step").

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/lanes/layout.h"
#include "codec/lanes/tables.h"

namespace gbcompress::codec::lanes {

/// Bytes behind a stripe's words that are read, though never used: words of a step and of its low
/// bits, and one vector.
inline constexpr std::size_t kReadBeyond = 2 * (2 * kLaneCount + 32);

/// Where the decoder is in a stripe.
struct StripeCursor {
  alignas(64) std::array<std::uint32_t, kLaneCount> states;
  const std::byte* word;  ///< kReadBeyond bytes follow words_end
  const std::byte* words_end;
  const std::byte* escape;
  const std::byte* escapes_end;
};

/// A bfloat16 number as it lies in memory.
struct Bfloat16 {
  std::uint16_t bits;
};
/// A binary16 number.
struct Float16 {
  std::uint16_t bits;
};

/// What a block's values are decoded with.
struct BlockInput {
  const std::uint32_t* entries = nullptr;  ///< of the grid's set of tables
  bool dependent = false;
  std::int64_t width = 0, values = 0;    ///< of a line, of the block
  const std::int8_t* lines = nullptr;    ///< class of each line
  const std::int8_t* columns = nullptr;  ///< class of each column
  /// [width + 64] classes of columns as distances in entries, the first ones again at the end.
  const std::int32_t* bases = nullptr;
  /// [width] highest class of the 64 columns from this one on, as far as the line goes.
  const std::int8_t* highest = nullptr;
  // Of real numbers:
  float scale = 1;                       ///< what a unit stands for
  const float* row_scales = nullptr;     ///< one a row of the grid instead of `scale`, or null
  std::int64_t first = 0, row_size = 1;  ///< place of the block's first value, values of a row
};

// False for what no encoder writes; what `out` holds is then of no meaning.
bool decode_block(const BlockInput& block, StripeCursor& cursor, std::int32_t* out);  ///< integers
bool decode_block(const BlockInput& block, StripeCursor& cursor, float* out);
bool decode_block(const BlockInput& block, StripeCursor& cursor, Bfloat16* out);
bool decode_block(const BlockInput& block, StripeCursor& cursor, Float16* out);

/// The numbers that units stand for.
void scale_units(const float* units, std::int64_t count, float scale, float* out);
void scale_units(const float* units, std::int64_t count, float scale, Bfloat16* out);
void scale_units(const float* units, std::int64_t count, float scale, Float16* out);

}  // namespace gbcompress::codec::lanes
