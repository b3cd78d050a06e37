// Sections of blocks, as the writer makes them.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "artifact/sections/blocks.h"
#include "artifact/sections/varint.h"
#include "base/parallel.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using codec::ByteCounts;
using gguf::BlockContext;
using gguf::BlockField;
using gguf::BlockLayout;

/// Coded bytes of symbols.
template <unsigned kJoined>
void join_symbols(const std::uint8_t* symbols, std::size_t count, unsigned bits, std::byte* coded) {
  for (std::size_t i = 0; i < count; ++i) {
    unsigned joined = 0;
    for (unsigned k = 0; k < kJoined; ++k)
      joined |= unsigned{symbols[kJoined * i + k]} << (bits * k);
    coded[i] = static_cast<std::byte>(joined);
  }
}

BlockBytes split_blocks(const BlockLayout& layout, std::span<const std::byte> raw) {
  BlockBytes bytes(layout, raw.size() / layout.bytes);
  std::array<std::uint8_t, kBlocksParted * gguf::kMostBlockSymbols> symbols;
  const auto* from = reinterpret_cast<const std::uint8_t*>(raw.data());
  for (std::size_t block = 0; block < bytes.blocks(); block += kBlocksParted) {
    const std::size_t blocks = std::min(kBlocksParted, bytes.blocks() - block);
    for (std::size_t f = 0; f < layout.fields; ++f) {
      const BlockField& field = layout.field[f];
      gguf::get_symbols(field, from + block * layout.bytes, symbols.data(), blocks, layout.bytes);
      std::byte* const to = bytes.field(f).data() + block * field.bytes();
      const std::size_t count = blocks * field.bytes();
      if (field.joined == 1)
        join_symbols<1>(symbols.data(), count, field.bits, to);
      else if (field.joined == 2)
        join_symbols<2>(symbols.data(), count, field.bits, to);
      else
        join_symbols<4>(symbols.data(), count, field.bits, to);
    }
  }
  return bytes;
}

/// Adds to the counts of each class. @param unit  neighboring bytes of one class
void count_units(std::span<const std::byte> bytes, std::span<const std::uint8_t> classes,
                 std::size_t unit, std::array<ByteCounts, kBlockClasses>& counts) {
  for (std::size_t u = 0; u < classes.size(); ++u) {
    ByteCounts& own = counts[classes[u]];
    for (const std::byte each : bytes.subspan(u * unit, unit))
      ++own[std::to_integer<std::size_t>(each)];
  }
}

/// Bits of these bytes by a table of their own, and of the table.
double coded_bits(const ByteCounts& counts) {
  double all = 0, bits = 0, table = 0;
  for (const std::uint32_t n : counts) all += n;
  for (const std::uint32_t n : counts) {
    if (n == 0) continue;
    bits += n * std::log2(all / n);
    table += 32.0 * n >= all ? 16 : 8;
  }
  return bits + table + 16;
}

ByteCounts sum_of(const ByteCounts& a, const ByteCounts& b) {
  ByteCounts sum;
  std::transform(a.begin(), a.end(), b.begin(), sum.begin(), std::plus<>());
  return sum;
}

/// The tables of a field.
struct FieldTables {
  std::array<std::uint8_t, kBlockClasses> of_class{};
  std::vector<codec::ByteWidths> widths;  ///< none: the field is not coded
  std::optional<codec::ByteEncoder> encoder;
};

/// Some neighboring classes that share a table.
struct ClassSpan {
  std::size_t last;
  ByteCounts counts;
  double bits;
};

/// Joins neighbors as long as that saves bits. @param fill  bits that one more table takes
std::vector<ClassSpan> join_classes(const std::array<ByteCounts, kBlockClasses>& counts,
                                    double fill) {
  std::vector<ClassSpan> spans;
  for (std::size_t c = 0; c < kBlockClasses; ++c) {
    const bool any = std::ranges::any_of(counts[c], [](std::uint32_t n) { return n > 0; });
    if (any)
      spans.push_back({c, counts[c], coded_bits(counts[c])});
    else if (!spans.empty())
      spans.back().last = c;
  }
  while (spans.size() > 1) {
    std::size_t best = 0;
    double saved = -1;
    for (std::size_t i = 0; i + 1 < spans.size(); ++i) {
      const double joined = coded_bits(sum_of(spans[i].counts, spans[i + 1].counts));
      const double less = spans[i].bits + spans[i + 1].bits + fill - joined;
      if (less > saved) best = i, saved = less;
    }
    if (saved < 0) break;
    const ByteCounts sum = sum_of(spans[best].counts, spans[best + 1].counts);
    spans[best] = {spans[best + 1].last, sum, coded_bits(sum)};
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  return spans;
}

FieldTables tables_for(const std::array<ByteCounts, kBlockClasses>& counts, std::size_t bytes,
                       std::size_t stripes) {
  const std::vector<ClassSpan> spans =
      join_classes(counts, 8.0 * kBlockGroup / 2 * static_cast<double>(stripes));
  FieldTables tables;
  double bits = 32.0 * static_cast<double>(codec::lanes_of(bytes / stripes) * stripes);
  for (const ClassSpan& span : spans) bits += span.bits;
  if (bits >= 8.0 * static_cast<double>(bytes)) return tables;
  std::size_t c = 0;
  for (const ClassSpan& span : spans) {
    std::uint64_t total = 0;
    for (const std::uint32_t n : span.counts) total += n;
    for (; c <= span.last; ++c)
      tables.of_class[c] = static_cast<std::uint8_t>(tables.widths.size());
    tables.widths.push_back(codec::byte_widths(span.counts, total));
  }
  tables.encoder.emplace(tables.widths);
  return tables;
}

class BlocksWriter {
 public:
  BlocksWriter(std::span<const std::byte> raw, const BlockLayout& layout, std::size_t fields,
               int threads)
      : raw_(raw), layout_(layout), fields_(fields), threads_(threads) {
    count();
  }

  Bytes write() const {
    Bytes section;
    for (const FieldTables& tables : tables_) append_tables(tables, section);
    std::vector<Bytes> stripes(this->stripes());
    parallel_tasks(threads_, static_cast<std::int64_t>(stripes.size()), [&](std::int64_t i) {
      stripes[static_cast<std::size_t>(i)] = make(static_cast<std::size_t>(i));
    });
    for (const Bytes& stripe : stripes) {
      if (&stripe != &stripes.back())
        append_number(section, static_cast<std::uint32_t>(stripe.size()));
      section.insert(section.end(), stripe.begin(), stripe.end());
    }
    return section;
  }

 private:
  using FieldCounts = std::array<std::array<ByteCounts, kBlockClasses>, gguf::kMostBlockFields>;

  std::size_t stripe_bytes() const { return blocks_of_stripe(layout_) * layout_.bytes; }
  std::size_t stripes() const { return (raw_.size() + stripe_bytes() - 1) / stripe_bytes(); }
  std::span<const std::byte> stripe(std::size_t i) const {
    const std::size_t at = i * stripe_bytes();
    return raw_.subspan(at, std::min(stripe_bytes(), raw_.size() - at));
  }
  /// Chooses the tables by all blocks.
  void count() {
    std::vector<FieldCounts> parts(stripes());
    parallel_tasks(threads_, static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
      FieldCounts& counts = parts[static_cast<std::size_t>(i)];
      const BlockBytes bytes = split_blocks(layout_, stripe(static_cast<std::size_t>(i)));
      for (std::size_t f = 0; f < fields_; ++f) {
        if (layout_.field[f].context == BlockContext::kNone)
          codec::count_bytes(bytes.field(f), counts[f][0]);
        else
          count_units(bytes.field(f), bytes.classes(f), bytes.unit(f), counts[f]);
      }
    });
    for (std::size_t i = 1; i < parts.size(); ++i)
      for (std::size_t f = 0; f < fields_; ++f)
        for (std::size_t c = 0; c < kBlockClasses; ++c)
          parts[0][f][c] = sum_of(parts[0][f][c], parts[i][f][c]);
    const std::size_t blocks = raw_.size() / layout_.bytes;
    for (std::size_t f = 0; f < fields_; ++f)
      tables_.push_back(tables_for(parts[0][f], blocks * layout_.field[f].bytes(), stripes()));
  }

  static void append_tables(const FieldTables& tables, Bytes& to) {
    to.push_back(static_cast<std::byte>(tables.widths.size()));
    if (tables.widths.size() > 1)
      for (std::size_t c = 0; c < kBlockClasses; c += 2)
        to.push_back(static_cast<std::byte>(tables.of_class[c] | tables.of_class[c + 1] << 4));
    for (const auto& widths : tables.widths) codec::append_widths(to, widths);
  }

  Bytes make(std::size_t i) const {
    const BlockBytes bytes = split_blocks(layout_, stripe(i));
    std::vector<std::uint16_t> words;
    Bytes to;
    for (std::size_t f = 0; f < fields_; ++f) {
      const auto field = bytes.field(f);
      Bytes packed;
      if (tables_[f].encoder) packed = encode(bytes, f, words);
      const bool coded = tables_[f].encoder && packed.size() < field.size();
      to.push_back(static_cast<std::byte>(coded ? kBlocksCoded : kBlocksRaw));
      if (coded) append_varint(to, static_cast<std::int64_t>(packed.size()));
      const auto content = coded ? std::span<const std::byte>(packed) : field;
      to.insert(to.end(), content.begin(), content.end());
    }
    return to;
  }

  Bytes encode(const BlockBytes& bytes, std::size_t f, std::vector<std::uint16_t>& words) const {
    const FieldTables& tables = tables_[f];
    const auto field = bytes.field(f);
    Bytes packed;
    if (tables.widths.size() == 1) {
      tables.encoder->encode(field, {}, words, packed);
      return packed;
    }
    std::vector<std::uint8_t> units = bytes.classes(f);
    for (std::uint8_t& unit : units) unit = tables.of_class[unit];
    const std::size_t size = bytes.unit(f);
    const BlockGroups groups = groups_of(units, size, tables.widths.size());
    // What fills up groups is the likeliest byte of their table.
    Bytes coded(groups.tables.size() * kBlockGroup);
    for (std::size_t g = 0; g < groups.tables.size(); ++g) {
      const auto& widths = tables.widths[groups.tables[g]];
      std::fill_n(coded.begin() + static_cast<std::ptrdiff_t>(g * kBlockGroup), kBlockGroup,
                  static_cast<std::byte>(std::ranges::max_element(widths) - widths.begin()));
    }
    std::vector<std::size_t> ends = groups.begins;
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      std::copy_n(field.data() + unit * size, size, coded.data() + ends[units[unit]]);
      ends[units[unit]] += size;
    }
    tables.encoder->encode(coded, {groups.tables, kBlockGroup}, words, packed);
    return packed;
  }

  std::span<const std::byte> raw_;
  const BlockLayout& layout_;
  std::size_t fields_;
  int threads_;
  std::vector<FieldTables> tables_;
};

}  // namespace

Bytes pack_blocks(std::span<const std::byte> raw, std::uint32_t type, int threads, bool quants) {
  const BlockLayout& layout = *gguf::find_block_layout(type);
  return BlocksWriter(raw, layout, quants ? layout.fields : layout.fields - 1U, threads).write();
}

}  // namespace gbcompress
