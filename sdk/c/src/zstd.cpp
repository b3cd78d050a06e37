// Frames of zstd (RFC 8878), bounded by the caller's memory: no window of its own, no dictionaries.
#include "zstd.h"

#include <algorithm>
#include <memory>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zstd_bits.h"

namespace gbz {
namespace {

constexpr std::uint32_t kMagic = 0xFD2FB528;
constexpr std::size_t kMostBlock = 1 << 17, kDamaged = ~std::size_t{0}, kNoRoom = kDamaged - 1;
constexpr unsigned kMostHuffmanBits = 11;

struct FrameHead {
  std::size_t size = 0;  ///< of the head itself
  unsigned long long content = kUnknownSize;
  bool checksum = false;
};

std::uint64_t little(const std::uint8_t* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{at[i]} << (8 * i);
  return value;
}

bool read_head(Bytes in, FrameHead& head) {
  if (in.size() < 5 || little(in.data(), 4) != kMagic) return false;
  const unsigned flags = in[4], size_flag = flags >> 6;
  const bool single = flags >> 5 & 1;
  if (flags >> 3 & 1) return false;
  constexpr std::size_t kDictionary[4] = {0, 1, 2, 4}, kContent[4] = {0, 2, 4, 8};
  const std::size_t content_bytes = size_flag == 0 && single ? 1 : kContent[size_flag];
  const std::size_t dictionary = kDictionary[flags & 3];
  const std::size_t at = 5 + (single ? 0 : 1) + dictionary;
  if (in.size() < at + content_bytes) return false;
  if (little(in.data() + at - dictionary, dictionary) != 0) return false;  // none is known
  head.size = at + content_bytes;
  head.checksum = flags >> 2 & 1;
  if (content_bytes > 0)
    head.content = little(in.data() + at, content_bytes) + (content_bytes == 2 ? 256 : 0);
  return true;
}

/// One symbol a prefix of kMostHuffmanBits bits or less.
struct Huffman {
  struct Symbol {
    std::uint8_t symbol, bits;
  };
  Symbol symbols[1 << kMostHuffmanBits];
  unsigned bits = 0;  ///< 0: there is none

  bool build(const std::uint8_t* weights, std::size_t count) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (weights[i] > kMostHuffmanBits)
        return false;
      else if (weights[i] > 0)
        sum += 1u << (weights[i] - 1);
    if (sum == 0) return false;
    const auto most = static_cast<unsigned>(std::bit_width(sum));
    const std::uint32_t left = (1u << most) - sum;
    if (most > kMostHuffmanBits || !std::has_single_bit(left)) return false;
    std::uint8_t all[256] = {};
    std::memcpy(all, weights, count);
    all[count] = static_cast<std::uint8_t>(std::bit_width(left));
    bits = most;
    Symbol* to = symbols;
    for (unsigned weight = 1; weight <= most; ++weight)
      for (std::size_t s = 0; s <= count; ++s)
        if (all[s] == weight)
          to = std::fill_n(
              to, 1u << (weight - 1),
              Symbol{static_cast<std::uint8_t>(s), static_cast<std::uint8_t>(most + 1 - weight)});
    return to == symbols + (1u << most);
  }

  bool decode(Bytes in, std::uint8_t* to, std::size_t count) const {
    BackwardBits stream(in);
    for (std::size_t i = 0; i < count; ++i) {
      const Symbol found = symbols[stream.peek(bits)];
      to[i] = found.symbol;
      stream.skip(found.bits);
      if (stream.is_beyond()) return false;
    }
    return stream.is_at_end();
  }
};

/// What stays from block to block.
struct State {
  Huffman huffman;
  Fse lengths, offsets, matches;
  std::uint64_t recent[3] = {1, 4, 8};
  std::uint8_t literals[kMostBlock];
};

/// The symbols of one kind of a block: which table they have.
bool read_table(ForwardBytes& in, unsigned mode, const FseKind& kind, Fse& table) {
  if (mode == 0) return table.build(kind.usual, kind.usual_count, kind.usual_bits);
  if (mode == 1) {
    const int symbol = in.byte();
    return symbol >= 0 && symbol <= kind.most_symbol &&
           table.set_single(static_cast<std::uint8_t>(symbol));
  }
  if (mode == 2) {
    const std::size_t used = table.read(in.rest(), kind.most_symbol, kind.most_bits);
    return used > 0 && in.skip(used);
  }
  return table.is_set();
}

bool read_weights(Bytes in, std::size_t& used, Huffman& huffman) {
  if (in.empty()) return false;
  std::uint8_t weights[256];
  std::size_t count = 0;
  const std::size_t head = in[0];
  if (head >= 128) {
    count = head - 127;
    used = 1 + (count + 1) / 2;
    if (in.size() < used) return false;
    for (std::size_t i = 0; i < count; ++i) weights[i] = in[1 + i / 2] >> (i % 2 ? 0 : 4) & 15;
    return huffman.build(weights, count);
  }
  used = 1 + head;
  if (in.size() < used) return false;
  Fse table;
  const Bytes coded = in.subspan(1, head);
  const std::size_t table_bytes = table.read(coded, 255, 6);
  if (table_bytes == 0 || table_bytes >= coded.size()) return false;
  BackwardBits stream(coded.subspan(table_bytes));
  unsigned states[2] = {stream.take(table.bits()), stream.take(table.bits())};
  if (stream.is_beyond()) return false;
  // Two states in turn; the one after that which finds no bits left has the last symbol.
  for (unsigned turn = 0;; turn ^= 1) {
    if (count >= 254) return false;
    weights[count++] = table.symbol(states[turn]);
    states[turn] = table.next(states[turn], stream);
    if (!stream.is_beyond()) continue;
    weights[count++] = table.symbol(states[turn ^ 1]);
    break;
  }
  return huffman.build(weights, count);
}

bool read_four(Bytes in, const Huffman& huffman, std::uint8_t* to, std::size_t size) {
  if (in.size() < 6) return false;
  const std::size_t part = (size + 3) / 4;
  std::size_t at = 6;
  if (3 * part > size) return false;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t bytes = i < 3 ? little(in.data() + 2 * i, 2) : in.size() - at;
    if (bytes > in.size() - at) return false;
    if (!huffman.decode(in.subspan(at, bytes), to + i * part, i < 3 ? part : size - 3 * part))
      return false;
    at += bytes;
  }
  return true;
}

/// The literals of a block. @return their number, or kDamaged; `used`: bytes of the section
std::size_t read_literals(Bytes in, State& state, std::size_t& used) {
  if (in.empty()) return kDamaged;
  const unsigned type = in[0] & 3, format = in[0] >> 2 & 3;
  if (type < 2) {
    const std::size_t head = format == 1 ? 2 : format == 3 ? 3 : 1;
    if (in.size() < head) return kDamaged;
    const auto size = static_cast<std::size_t>(little(in.data(), head) >> (head == 1 ? 3 : 4));
    used = head + (type == 0 ? size : 1);
    if (size > kMostBlock || in.size() < used) return kDamaged;
    if (type == 0)
      std::memcpy(state.literals, in.data() + head, size);
    else
      std::memset(state.literals, in[head], size);
    return size;
  }
  const std::size_t head = format < 2 ? 3 : format + 2;
  if (in.size() < head) return kDamaged;
  const unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;
  const std::uint64_t sizes = little(in.data(), head) >> 4;
  const std::size_t size = sizes & ((1u << bits) - 1), packed = sizes >> bits & ((1u << bits) - 1);
  used = head + packed;
  if (size > kMostBlock || in.size() < used) return kDamaged;
  Bytes content = in.subspan(head, packed);
  if (type == 2) {
    std::size_t tree = 0;
    if (!read_weights(content, tree, state.huffman)) return kDamaged;
    content = content.subspan(tree);
  }
  if (state.huffman.bits == 0) return kDamaged;
  const bool good = format == 0 ? state.huffman.decode(content, state.literals, size)
                                : read_four(content, state.huffman, state.literals, size);
  return good ? size : kDamaged;
}

/// Where decoded bytes go.
struct Output {
  std::uint8_t* begin;
  std::size_t size, room;

  bool append(const std::uint8_t* bytes, std::size_t count) {
    if (count > room - size) return false;
    if (count > 0) std::memcpy(begin + size, bytes, count);
    size += count;
    return true;
  }
  bool fill(std::uint8_t byte, std::size_t count) {
    if (count > room - size) return false;
    std::memset(begin + size, byte, count);
    size += count;
    return true;
  }
  bool repeat(std::uint64_t distance, std::size_t count) {
    if (distance == 0 || distance > size || count > room - size) return false;
    for (std::size_t i = 0; i < count; ++i, ++size) begin[size] = begin[size - distance];
    return true;
  }
};

/// The distance that an offset value stands for; the last three may come again by number.
std::uint64_t distance_of(std::uint64_t value, bool no_literals, std::uint64_t (&recent)[3]) {
  if (value > 3) {
    recent[2] = recent[1];
    recent[1] = recent[0];
    return recent[0] = value - 3;
  }
  const std::uint64_t place = value - 1 + no_literals;
  if (place == 0) return recent[0];
  const std::uint64_t distance = place == 3 ? recent[0] - 1 : recent[place];
  if (place > 1) recent[2] = recent[1];
  recent[1] = recent[0];
  return recent[0] = distance;
}

bool run_sequences(Bytes in, std::size_t count, std::size_t literals, State& state, Output& out) {
  BackwardBits stream(in);
  unsigned length = stream.take(state.lengths.bits()), offset = stream.take(state.offsets.bits()),
           match = stream.take(state.matches.bits());
  const std::uint8_t* from = state.literals;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned offset_code = state.offsets.symbol(offset);
    const std::uint64_t value = (std::uint64_t{1} << offset_code) + stream.take(offset_code);
    const Extent match_extent = kMatchExtents[state.matches.symbol(match)];
    const std::size_t match_size = match_extent.least + stream.take(match_extent.bits);
    const Extent length_extent = kLengthExtents[state.lengths.symbol(length)];
    const std::size_t length_size = length_extent.least + stream.take(length_extent.bits);
    if (stream.is_beyond() || length_size > literals) return false;
    if (!out.append(from, length_size)) return false;
    from += length_size;
    literals -= length_size;
    if (!out.repeat(distance_of(value, length_size == 0, state.recent), match_size)) return false;
    if (i + 1 == count) break;
    length = state.lengths.next(length, stream);
    match = state.matches.next(match, stream);
    offset = state.offsets.next(offset, stream);
  }
  return stream.is_at_end() && out.append(from, literals);
}

bool read_block(Bytes block, State& state, Output& out) {
  std::size_t used = 0;
  const std::size_t literals = read_literals(block, state, used);
  if (literals == kDamaged) return false;
  ForwardBytes in(block.subspan(used));
  const int first = in.byte();
  if (first < 0) return false;
  auto count = static_cast<std::size_t>(first);
  if (first >= 128) {
    const int second = in.byte(), third = first == 255 ? in.byte() : 0;
    if (second < 0 || third < 0) return false;
    count = first < 255 ? static_cast<std::size_t>((first - 128) * 256 + second)
                        : static_cast<std::size_t>(second + third * 256 + 0x7F00);
  }
  if (count == 0) return in.rest().empty() && out.append(state.literals, literals);
  const int modes = in.byte();
  if (modes < 0 || modes & 3) return false;
  const auto mode = static_cast<unsigned>(modes);
  return read_table(in, mode >> 6, kLengthKind, state.lengths) &&
         read_table(in, mode >> 4 & 3, kOffsetKind, state.offsets) &&
         read_table(in, mode >> 2 & 3, kMatchKind, state.matches) &&
         run_sequences(in.rest(), count, literals, state, out);
}

/// Walks the blocks of a frame. @return bytes of the frame, or an error
template <typename Visit>
std::size_t walk(Bytes in, FrameHead& head, const Visit& visit) {
  if (!read_head(in, head)) return kDamaged;
  std::size_t at = head.size;
  for (bool last = false; !last;) {
    if (in.size() - at < 3) return kDamaged;
    const auto word = static_cast<std::uint32_t>(little(in.data() + at, 3));
    const std::size_t size = word >> 3;
    const unsigned type = word >> 1 & 3;
    at += 3;
    last = word & 1;
    const std::size_t stored = type == 1 ? 1 : size;
    if (type == 3 || size > kMostBlock || stored > in.size() - at) return kDamaged;
    if (!visit(type, in.subspan(at, stored), size)) return kDamaged;
    at += stored;
  }
  const std::size_t end = at + (head.checksum ? 4 : 0);
  return end <= in.size() ? end : kDamaged;
}

}  // namespace

unsigned long long zstd_content_size(const void* bytes, std::size_t size) {
  FrameHead head;
  return read_head({static_cast<const std::uint8_t*>(bytes), size}, head) ? head.content : kNoFrame;
}

std::size_t zstd_frame_size(const void* bytes, std::size_t size) {
  FrameHead head;
  return walk({static_cast<const std::uint8_t*>(bytes), size}, head,
              [](unsigned, Bytes, std::size_t) { return true; });
}

std::size_t zstd_decompress(void* to, std::size_t room, const void* bytes, std::size_t size) {
  const auto state = std::make_unique<State>();
  Output out{static_cast<std::uint8_t*>(to), 0, room};
  FrameHead head;
  const Bytes in(static_cast<const std::uint8_t*>(bytes), size);
  const std::size_t end = walk(in, head, [&](unsigned type, Bytes block, std::size_t declared) {
    if (type == 0) return out.append(block.data(), block.size());
    if (type == 1) return out.fill(block[0], declared);
    const std::size_t before = out.size;
    return read_block(block, *state, out) && out.size - before <= kMostBlock;
  });
  if (end != size) return kDamaged;
  if (head.checksum && static_cast<std::uint32_t>(XXH64(to, out.size, 0)) !=
                           static_cast<std::uint32_t>(little(in.data() + end - 4, 4)))
    return kDamaged;
  return head.content == kUnknownSize || head.content == out.size ? out.size : kNoRoom;
}

}  // namespace gbz
