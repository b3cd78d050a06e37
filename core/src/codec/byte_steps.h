#pragma once
/// Steps of many lanes of the coder of bytes, in vectors.

#include <cstddef>
#include <cstdint>

namespace gbcompress::codec {

inline constexpr std::size_t kManyLanes = 32;

/// What steps read.
struct ByteSteps {
  const std::uint32_t* entries;  ///< of all tables
  const std::uint8_t* classes;   ///< of each run; null: one table
  std::size_t steps_of_run;
};

/// Decodes up to `steps` steps of 32 bytes, fewer where words run out.
/// @param states  [32]
/// @param word    the next one; moved on
/// @return how many
std::size_t decode_byte_steps(const ByteSteps& in, std::size_t steps, std::uint32_t* states,
                              const std::byte*& word, const std::byte* end, std::byte* out);

/// Words before `next` of which each encoder may write what is not used.
inline constexpr std::size_t kByteWordsInVain = 16;

/// Encodes so many steps, the last one first. `entries` has the parts of a table's 256 bytes: width
/// above 16 bits of start.
/// @param next  words are written before it, one for each lane of each step at most
/// @return the first of them
std::uint16_t* encode_byte_steps(const ByteSteps& in, const std::byte* bytes, std::size_t steps,
                                 std::uint32_t* states, std::uint16_t* next);

}  // namespace gbcompress::codec
