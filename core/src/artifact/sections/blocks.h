#pragma once
/// Lossless blocks of ggml's quantized types, field by field (docs/reference/blocks.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_coder.h"
#include "format/gguf/block_fields.h"

namespace gbcompress {

/// Bytes of blocks of a stripe, at most.
inline constexpr std::size_t kBlockStripe = std::size_t{1} << 20;
/// Bytes of one table follow each other, filled up to a multiple of this.
inline constexpr std::size_t kBlockGroup = 32;
/// Blocks whose symbols are parted or joined at once, and stay in the cache.
inline constexpr std::size_t kBlocksParted = 32;
inline constexpr std::size_t kBlockClasses = 16;
/// How the bytes of a field are stored.
inline constexpr unsigned char kBlocksRaw = 0, kBlocksCoded = 2;

constexpr std::size_t blocks_of_stripe(const gguf::BlockLayout& layout) {
  return kBlockStripe / layout.bytes;
}

/// The coded bytes of the fields of some blocks, field after field, [block][byte].
class BlockBytes {
 public:
  BlockBytes(const gguf::BlockLayout& layout, std::size_t blocks);

  std::size_t blocks() const noexcept { return blocks_; }
  std::span<std::byte> field(std::size_t f) noexcept {
    return std::span(bytes_).subspan(first_[f], layout_.field[f].bytes() * blocks_);
  }
  std::span<const std::byte> field(std::size_t f) const noexcept {
    return std::span(bytes_).subspan(first_[f], layout_.field[f].bytes() * blocks_);
  }
  /// Bytes of a field that have one class.
  std::size_t unit(std::size_t f) const noexcept;
  /// The classes of a field with a context, one for each unit, from the fields before it.
  std::vector<std::uint8_t> classes(std::size_t f) const;
  /// The blocks themselves.
  /// @param fields  the first ones; bits of others are 0
  void merge(std::span<std::byte> raw, std::size_t fields) const;

 private:
  std::vector<std::uint8_t> zeros() const;

  const gguf::BlockLayout& layout_;
  std::size_t blocks_;
  std::array<std::size_t, gguf::kMostBlockFields> first_{};
  std::vector<std::byte> bytes_;
};

/// Where the units of each table begin among the bytes that are coded, and the table of each group.
struct BlockGroups {
  std::vector<std::size_t> begins;   ///< one a table
  std::vector<std::uint8_t> tables;  ///< one for each kBlockGroup bytes
};
/// @param tables_of_units  below `tables`
BlockGroups groups_of(std::span<const std::uint8_t> tables_of_units, std::size_t unit,
                      std::size_t tables);

/// @param type    of gguf::find_block_layout(), whose blocks raw consists of
/// @param quants  false: the last field is left out
std::vector<std::byte> pack_blocks(std::span<const std::byte> raw, std::uint32_t type, int threads,
                                   bool quants = true);

/// @param raw_bytes  of the blocks; the caller has checked it against its limits
/// @param quants     false: the last field was left out, and its bits are 0
/// @throws Error(kCorrupt, kTruncated)
std::vector<std::byte> unpack_blocks(std::span<const std::byte> stored, std::size_t raw_bytes,
                                     std::uint32_t type, const std::string& label,
                                     bool quants = true);

}  // namespace gbcompress
