#include "artifact/sections/blocks.h"

#include <algorithm>
#include <cstring>

#include "artifact/sections/varint.h"
#include "base/float16.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using gguf::BlockContext;
using gguf::BlockField;
using gguf::BlockLayout;

[[noreturn]] void refuse_blocks(const std::string& label, const char* why) {
  throw Error(Errc::kCorrupt, label + " has " + why);
}

/// The symbols of coded bytes.
template <unsigned kJoined>
void part_symbols(const std::byte* coded, std::size_t count, unsigned bits, std::uint8_t* symbols) {
  for (std::size_t i = 0; i < count; ++i)
    for (unsigned k = 0; k < kJoined; ++k)
      symbols[kJoined * i + k] = static_cast<std::uint8_t>(
          std::to_integer<unsigned>(coded[i]) >> (bits * k) & ((1U << bits) - 1));
}

/// @param room  for kBlocksParted * gguf::kMostBlockSymbols @return the symbols of some blocks
const std::uint8_t* symbols_of(const BlockField& field, const std::byte* coded, std::size_t blocks,
                               std::uint8_t* room) {
  if (field.joined == 1) return reinterpret_cast<const std::uint8_t*>(coded);
  if (field.joined == 2)
    part_symbols<2>(coded, field.bytes() * blocks, field.bits, room);
  else
    part_symbols<4>(coded, field.bytes() * blocks, field.bits, room);
  return room;
}

float half_at(std::span<const std::byte> high, std::span<const std::byte> low, std::size_t block) {
  return half_to_float(static_cast<std::uint16_t>(std::to_integer<unsigned>(high[block]) << 8 |
                                                  std::to_integer<unsigned>(low[block])));
}

template <std::size_t kUnit>
void spread(std::span<const std::uint8_t> tables, std::vector<std::size_t>& from,
            const std::byte* coded, std::byte* to, std::size_t unit) {
  for (const std::uint8_t table : tables) {
    const std::byte* const bytes = coded + from[table];
    const std::size_t size = kUnit > 0 ? kUnit : unit;
    std::copy(bytes, bytes + size, to);
    from[table] += size;
    to += size;
  }
}

void spread_units(std::span<const std::uint8_t> tables, std::size_t unit,
                  std::vector<std::size_t> from, const std::byte* coded, std::byte* to) {
#ifndef GBC_FREESTANDING
  if (unit == 1) return spread<1>(tables, from, coded, to, unit);
  if (unit == 4) return spread<4>(tables, from, coded, to, unit);
  if (unit == 16) return spread<16>(tables, from, coded, to, unit);
  if (unit == 32) return spread<32>(tables, from, coded, to, unit);
#endif
  spread<0>(tables, from, coded, to, unit);
}

/// Reads the stripes of a section.
class BlockStripes {
 public:
  BlockStripes(ByteReader& in, const BlockLayout& layout, std::size_t fields,
               const std::string& label)
      : layout_(layout), fields_(fields), label_(label) {
    for (std::size_t f = 0; f < fields; ++f) read_tables(in, f);
  }

  void read(ByteReader& in, std::span<std::byte> raw) const {
    BlockBytes bytes(layout_, raw.size() / layout_.bytes);
    for (std::size_t f = 0; f < fields_; ++f) read_field(in, f, bytes);
    if (in.remaining() > 0) refuse_blocks(label_, "bytes after its blocks");
    bytes.merge(raw, fields_);
  }

 private:
  void read_tables(ByteReader& in, std::size_t f) {
    first_[f] = decoder_.tables();
    const std::size_t count = in.read<std::uint8_t>();
    const bool classes = layout_.field[f].context != BlockContext::kNone;
    if (count > (classes ? kBlockClasses : 1)) refuse_blocks(label_, "more tables than classes");
    if (count > 1) {
      const auto nibbles = in.take(kBlockClasses / 2);
      for (std::size_t c = 0; c < kBlockClasses; ++c) {
        table_of_[f][c] =
            std::to_integer<std::uint8_t>(nibbles[c / 2] >> (4 * (c % 2)) & std::byte{15});
        if (table_of_[f][c] >= count) refuse_blocks(label_, "a class of no table");
      }
    }
    for (std::size_t t = 0; t < count; ++t) decoder_.add(codec::read_widths(in, label_));
    tables_[f] = count;
  }

  void read_field(ByteReader& in, std::size_t f, BlockBytes& bytes) const {
    const std::span<std::byte> to = bytes.field(f);
    const auto kind = in.read<unsigned char>();
    if (kind == kBlocksRaw) {
      const auto content = in.take(to.size());
      std::copy(content.begin(), content.end(), to.begin());
      return;
    }
    if (kind != kBlocksCoded || tables_[f] == 0)
      refuse_blocks(label_, "a field of an unknown kind");
    const auto content = in.take(static_cast<std::uint64_t>(read_varint(in, label_)));
    if (tables_[f] == 1) return decoder_.decode(content, {{}, 0, first_[f]}, to);
    std::vector<std::uint8_t> units = bytes.classes(f);
    for (std::uint8_t& unit : units) unit = table_of_[f][unit];
    const BlockGroups groups = groups_of(units, bytes.unit(f), tables_[f]);
    Bytes coded(groups.tables.size() * kBlockGroup);
    std::vector<std::uint8_t> tables = groups.tables;
    for (std::uint8_t& table : tables) table = static_cast<std::uint8_t>(table + first_[f]);
    decoder_.decode(content, {tables, kBlockGroup}, coded);
    spread_units(units, bytes.unit(f), groups.begins, coded.data(), to.data());
  }

  const BlockLayout& layout_;
  std::size_t fields_;
  const std::string& label_;
  codec::ByteDecoder decoder_;  ///< with the tables of all fields
  std::array<std::size_t, gguf::kMostBlockFields> first_{}, tables_{};
  std::array<std::array<std::uint8_t, kBlockClasses>, gguf::kMostBlockFields> table_of_{};
};

}  // namespace

BlockBytes::BlockBytes(const BlockLayout& layout, std::size_t blocks)
    : layout_(layout), blocks_(blocks) {
  std::size_t all = 0;
  for (std::size_t f = 0; f < layout.fields; ++f) {
    first_[f] = all;
    all += layout.field[f].bytes() * blocks;
  }
  bytes_.resize(all);
}

std::size_t BlockBytes::unit(std::size_t f) const noexcept {
  const BlockField& field = layout_.field[f];
  return field.context == BlockContext::kZero ? field.bytes() / layout_.parts : 1;
}

std::vector<std::uint8_t> BlockBytes::zeros() const {
  std::vector<std::uint8_t> classes(blocks_ * layout_.parts);
  const bool scaled = layout_.parts > 1;
  // Classes are as wide as the quants that a sixteenth of their range is.
  const float share = 16.0F / static_cast<float>(1U << layout_.field[layout_.fields - 1U].bits);
  for (std::size_t block = 0, unit = 0; block < blocks_; ++block) {
    const float scale = half_at(field(0), field(1), block);
    const float offset = half_at(field(2), field(3), block);
    for (std::size_t part = 0; part < layout_.parts; ++part, ++unit) {
      float step = scale, zero = -offset;
      if (scaled) {
        step = scale * static_cast<float>(std::to_integer<unsigned>(field(4)[unit]));
        zero = offset * static_cast<float>(std::to_integer<unsigned>(field(5)[unit]));
      }
      const float at = zero / step * share + 0.5F;
      classes[unit] = !(at > 0) ? 0 : at < 15 ? static_cast<std::uint8_t>(at) : 15;
    }
  }
  return classes;
}

std::vector<std::uint8_t> BlockBytes::classes(std::size_t f) const {
  if (layout_.field[f].context == BlockContext::kZero) return zeros();
  const BlockField& before = layout_.field[f - 1];
  const auto symbols = field(f - 1);
  const bool half = layout_.field[f].context == BlockContext::kHalf;
  const unsigned shift = half ? 0 : before.bits - 4U, mask = half ? 3 : 15;
  std::vector<std::uint8_t> classes(symbols.size());
  for (std::size_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(symbols[i]) >> shift & mask);
  return classes;
}

void BlockBytes::merge(std::span<std::byte> raw, std::size_t fields) const {
  std::fill(raw.begin(), raw.end(), std::byte{0});
  std::vector<std::uint8_t> room(kBlocksParted * gguf::kMostBlockSymbols);
  for (std::size_t f = 0; f < fields; ++f) {
    const BlockField& one = layout_.field[f];
    auto* to = reinterpret_cast<std::uint8_t*>(raw.data());
    for (std::size_t block = 0; block < blocks_; block += kBlocksParted) {
      const std::size_t count = std::min(kBlocksParted, blocks_ - block);
      const std::byte* const coded = field(f).data() + block * one.bytes();
      gguf::put_symbols(one, symbols_of(one, coded, count, room.data()), to + block * layout_.bytes,
                        count, layout_.bytes);
    }
  }
}

BlockGroups groups_of(std::span<const std::uint8_t> tables_of_units, std::size_t unit,
                      std::size_t tables) {
  std::array<std::size_t, kBlockClasses> sizes{};
  for (const std::uint8_t table : tables_of_units) sizes[table] += unit;
  BlockGroups groups;
  for (std::size_t table = 0; table < tables; ++table) {
    groups.begins.push_back(groups.tables.size() * kBlockGroup);
    const std::size_t count = (sizes[table] + kBlockGroup - 1) / kBlockGroup;
    groups.tables.insert(groups.tables.end(), count, static_cast<std::uint8_t>(table));
  }
  return groups;
}

Bytes unpack_blocks(std::span<const std::byte> stored, std::size_t raw_bytes, std::uint32_t type,
                    const std::string& label, bool quants) {
  const BlockLayout* const layout = gguf::find_block_layout(type);
  if (!layout || raw_bytes % layout->bytes != 0) refuse_blocks(label, "blocks of no known type");
  // States of streams alone take more: a lie about the size ends here, whatever the limits.
  if (raw_bytes / 32'768 > stored.size())
    refuse_blocks(label, "more blocks than its bytes can hold");
  ByteReader in(stored, label);
  const BlockStripes stripes(in, *layout, quants ? layout->fields : layout->fields - 1U, label);
  Bytes raw(raw_bytes);
  const std::size_t most = blocks_of_stripe(*layout) * layout->bytes;
  for (std::size_t at = 0; at < raw_bytes; at += most) {
    const bool last = raw_bytes - at <= most;
    ByteReader stripe(in.take(last ? in.remaining() : in.read<std::uint32_t>()), label);
    stripes.read(stripe, std::span(raw).subspan(at, std::min(most, raw_bytes - at)));
  }
  return raw;
}

}  // namespace gbcompress
