// The dense form for one level of a processor; included once a level.
#if defined(GBC_DELTA_DENSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GBC_DELTA_DENSE_INL_H_
#undef GBC_DELTA_DENSE_INL_H_
#else
#define GBC_DELTA_DENSE_INL_H_
#endif

#include <hwy/highway.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/byte_reader.h"
#include "codec/delta/dense_coder.h"
#include "codec/delta/dense_tables.h"
#include "codec/delta/forms.h"
#include "gbcompress/error.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress::codec::delta {
namespace HWY_NAMESPACE {
namespace {

/// Lines of a tensor are its rows, where these have so many elements; else runs of kLine.
constexpr std::int64_t kLeastLine = 128, kMostLine = 8192;
constexpr std::size_t kLine = 1024;
/// Elements that pass through each step together. A multiple of the lanes.
constexpr std::size_t kRun = 256;
/// Levels that so few elements exceed do not count: infinities among them.
constexpr std::size_t kRare = 4096;
constexpr std::size_t kLevelSample = std::size_t{1} << 14, kLevelStride = 61;
constexpr std::uint64_t kMostSize = std::uint64_t{1} << 24;

std::size_t line_of(ChangeGrid grid) {
  return grid.rows > 1 && grid.cols >= kLeastLine && grid.cols <= kMostLine
             ? static_cast<std::size_t>(grid.cols)
             : kLine;
}

[[noreturn]] void bad_dense(const char* why) {
  throw Error(Errc::kCorrupt, std::string("a dense change ") + why + "; get the file again");
}

/// The level that counts as 0: 24 below the highest that is not rare, at least 1. Of many elements
/// a part tells.
template <typename U>
std::uint16_t lowest_level(std::span<const std::byte> base, int mantissa_bits) {
  if (mantissa_bits == 0) return 1;
  std::vector<std::size_t> counts(std::size_t{1} << (kBits<U> - 1 - mantissa_bits));
  const std::size_t n = base.size() / sizeof(U);
  const std::size_t stride = std::clamp<std::size_t>(n / kLevelSample, 1, kLevelStride);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < n; i += stride, ++seen)
    ++counts[level_of(load<U>(base.data() + i * sizeof(U)), mantissa_bits)];
  std::size_t top = counts.size() - 1;
  for (std::size_t above = counts[top]; top > 1 && above <= seen / kRare; above += counts[top])
    --top;
  return static_cast<std::uint16_t>(top > kMostShift ? top - kMostShift : 1);
}

unsigned shift_of(unsigned level, unsigned lowest) {
  return std::min(std::max(level, lowest) - lowest, kMostShift);
}

/// Elements that pass through each step together, in loops that compilers make vectors of.
template <typename U>
struct Run {
  std::array<U, kRun> before, differences;
  std::array<std::uint8_t, kRun> tables, low_bits, symbols;

  /// Tables and low bits of elements from `first` up to `end`, which are of one line.
  void set_contexts(std::size_t first, std::size_t end, unsigned scale, int mantissa_bits,
                    unsigned lowest) {
    constexpr auto kMagnitude = static_cast<U>(~kSign<U>);
    const auto highest = static_cast<std::int16_t>(highest_context(mantissa_bits));
    constexpr std::int16_t kFirst = kFolded, kLastTable = kTables - 1;
    const auto least = static_cast<std::int16_t>(std::min(lowest, 1u << 12));
    for (std::size_t i = first; i < end; ++i) {
      // Levels have 11 bits at most, a scale 7.
      const auto level =
          mantissa_bits == 0
              ? std::int16_t{1}
              : static_cast<std::int16_t>(static_cast<U>(before[i] & kMagnitude) >> mantissa_bits);
      const auto rise = static_cast<std::int16_t>(std::max<std::int16_t>(level, 1) - least);
      const auto shift = std::clamp<std::int16_t>(rise, 0, kMostShift);
      const auto context = std::max<std::int16_t>(
          static_cast<std::int16_t>(static_cast<std::int16_t>(scale) - 2 * shift), 0);
      // Without choices, which GCC 12 would make branches of.
      const auto above = std::max<std::int16_t>(static_cast<std::int16_t>(context - highest), 0);
      const auto folded =
          std::max<std::int16_t>(static_cast<std::int16_t>(std::min(context, highest) - kFirst), 0);
      const auto plain = static_cast<std::int16_t>(std::min(context, kFirst) + (folded & 1));
      const auto octave = static_cast<std::int16_t>(kFirstHigh - 1 + ((above + 1) >> 1));
      const auto high = std::min(octave, kLastTable);
      const auto mask = static_cast<std::int16_t>(-std::min<std::int16_t>(above, 1));
      tables[i] = static_cast<std::uint8_t>((plain & ~mask) | (high & mask));
      low_bits[i] = static_cast<std::uint8_t>(folded >> 1);
    }
  }
  /// Differences count away from 0: those of negative floats change their sign, or get it back.
  void turn(std::size_t count, bool floats) {
    if (!floats) return;
    for (std::size_t i = 0; i < count; ++i) {
      const auto sign = static_cast<U>(U{0} - static_cast<U>(before[i] >> (kBits<U> - 1)));
      differences[i] = static_cast<U>(static_cast<U>(differences[i] ^ sign) - sign);
    }
  }
};

/// Calls body(first, end, scale) for elements that end at multiples of kRun and of lines.
template <typename Body>
void for_pieces(std::size_t n, std::size_t line, std::span<const std::uint8_t> scales,
                const Body& body) {
  for (std::size_t first = 0; first < n;) {
    const std::size_t end = std::min({n, (first / line + 1) * line, (first / kRun + 1) * kRun});
    body(first, end, scales[first / line]);
    first = end;
  }
}

/// Scales of lines, each as what it is more than the one before.
constexpr int kFirstScale = 12, kScaleOctave = 6;
void put_scales(BitWriter& out, std::span<const std::uint8_t> scales) {
  Drifting steps(kScaleOctave);
  int before = kFirstScale;
  for (const std::uint8_t scale : scales) {
    const int step = scale - before;
    steps.put(out, static_cast<std::uint64_t>(step > 0 ? 2 * step - 1 : -2 * step));
    before = scale;
  }
}

std::vector<std::uint8_t> get_scales(BitReader& in, std::size_t count) {
  Drifting steps(kScaleOctave);
  std::vector<std::uint8_t> scales(count);
  std::uint64_t before = kFirstScale;
  for (std::uint8_t& scale : scales) {
    const std::uint64_t step = steps.get(in);
    before += step % 2 == 1 ? step / 2 + 1 : 0 - step / 2;
    if (before > kMostScale) bad_dense("has a line of another scale than there is");
    scale = static_cast<std::uint8_t>(before);
  }
  in.check();
  return scales;
}

/// The scale of each line, from a part of long ones.
template <typename U>
std::vector<std::uint8_t> scales_of(int mantissa_bits, unsigned lowest, std::size_t line,
                                    std::span<const std::byte> base,
                                    std::span<const std::byte> now) {
  const std::size_t n = base.size() / sizeof(U);
  const std::size_t stride = line < 256 ? 1 : line < 1024 ? 2 : 4;
  std::vector<std::uint8_t> scales;
  for (std::size_t first = 0; first < n; first += line) {
    std::uint64_t sum = 0, seen = 0;  // below 2^62
    for (std::size_t i = first; i < std::min(first + line, n); i += stride, ++seen) {
      const U before = load<U>(base.data() + i * sizeof(U));
      const U after = load<U>(now.data() + i * sizeof(U));
      const auto difference = static_cast<U>(to_ordered(after, mantissa_bits > 0) -
                                             to_ordered(before, mantissa_bits > 0));
      const auto size = static_cast<U>(static_cast<std::make_signed_t<U>>(difference) < 0
                                           ? static_cast<U>(U{0} - difference)
                                           : difference);
      sum += std::min<std::uint64_t>(size, kMostSize)
             << shift_of(level_of(before, mantissa_bits), lowest);
    }
    const double mean = static_cast<double>(sum) * (1 << kFractionBits) / static_cast<double>(seen);
    scales.push_back(static_cast<std::uint8_t>(half_octave(static_cast<std::uint64_t>(mean))));
  }
  return scales;
}

/// Whether elements of a run have bits beside their symbols.
template <typename U>
bool has_low_bits(const Run<U>& run, std::size_t count) {
  std::uint8_t low = 0, most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    low = static_cast<std::uint8_t>(low | run.low_bits[i]);
    most = std::max(most, run.symbols[i]);
  }
  return low > 0 || most >= kBeyond;
}

/// The place of a signed value in 0, 1, -1, 2, -2, ...; without a choice, which GCC 12 would make a
/// branch of.
template <typename U>
U place_of(U value) {
  const auto minus = static_cast<U>(U{0} - value);
  const auto sign = static_cast<U>(U{0} - static_cast<U>(minus >> (kBits<U> - 1)));
  return static_cast<U>(static_cast<U>(minus << 1) ^ sign);
}

/// The symbols of a run's differences, and their low bits to `out`.
template <typename U>
void find_symbols(Run<U>& run, std::size_t count, BitWriter& out) {
  for (std::size_t i = 0; i < count; ++i) {
    run.symbols[i] = static_cast<std::uint8_t>(std::min<U>(place_of(run.differences[i]), kBeyond));
  }
  if (!has_low_bits(run, count)) return;
  BitWriter::Run raw(out, count * kMostRaw);
  for (std::size_t i = 0; i < count; ++i) {
    const int low = run.low_bits[i];
    const std::int64_t difference = static_cast<std::make_signed_t<U>>(run.differences[i]);
    const std::int64_t value = difference >> low;
    if (value <= kDirect && value >= -static_cast<std::int64_t>(kDirect)) [[likely]] {
      run.symbols[i] = static_cast<std::uint8_t>(place_of(static_cast<std::uint64_t>(value)));
    } else {
      run.symbols[i] = static_cast<std::uint8_t>(symbol_beyond(value));
      BitWriter::Run copy = raw;  // so that `raw` stays in registers
      put_beyond(copy, value);
      raw = copy;
    }
    raw.put(static_cast<std::uint64_t>(difference) & ((std::uint64_t{1} << low) - 1), low);
  }
  raw.end(out);
}

inline std::uint64_t take_beyond(BitReader& raw, unsigned symbol) {
  return get_beyond(raw, symbol);
}
#ifndef GBC_FREESTANDING
/// Of a copy, so that the address of `raw` is not taken.
HWY_INLINE std::uint64_t take_beyond(BitReader::Run& raw, unsigned symbol) {
  BitReader::Run copy = raw;
  const std::uint64_t value = get_beyond(copy, symbol);
  raw = copy;
  return value;
}
#endif

/// Differences of values, with their low bits and what is beyond a symbol.
template <typename U, typename Reader>
HWY_INLINE void add_low_bits(Run<U>& run, std::size_t count, Reader& raw) {
  for (std::size_t i = 0; i < count; ++i) {
    // Most take 0 to a few bits, which no processor foresees: those of 0 are read like the others.
    const int low = run.low_bits[i];
    std::uint64_t value = run.differences[i];
    if (run.symbols[i] >= kBeyond) [[unlikely]]
      value = take_beyond(raw, run.symbols[i]);
    run.differences[i] = static_cast<U>(value << low | raw.take(low));
  }
}

/// The differences of a run's symbols.
template <typename U>
void find_differences(Run<U>& run, std::size_t count, BitReader& in) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = static_cast<U>(run.symbols[i]);
    const auto sign = static_cast<U>(U{0} - static_cast<U>(place & 1));
    run.differences[i] = static_cast<U>(U{0} - static_cast<U>(static_cast<U>(place >> 1) ^ sign));
  }
  if (!has_low_bits(run, count)) return;
#ifndef GBC_FREESTANDING  // libgbz has one copy of the loop
  if (in.has(count * kMostRaw)) {
    BitReader::Run raw(in);
    add_low_bits(run, count, raw);
    raw.end(in);
    return in.check();
  }
#endif
  add_low_bits(run, count, in);
  in.check();
}

template <typename U>
std::vector<std::byte> EncodeDense(int mantissa_bits, ChangeGrid grid,
                                   std::span<const std::byte> base,
                                   std::span<const std::byte> now) {
  const bool floats = mantissa_bits > 0;
  const unsigned lowest = lowest_level<U>(base, mantissa_bits);
  const std::size_t n = base.size() / sizeof(U), line = line_of(grid);
  const std::vector<std::uint8_t> scales = scales_of<U>(mantissa_bits, lowest, line, base, now);
  std::vector<std::uint16_t> symbols(n);
  // By turns, so that a counter is not read right after it was written.
  std::array<DenseCounts, 2> counts{};
  BitWriter raw;
  Run<U> run;
  std::array<U, kRun> after;
  for_pieces(n, line, scales, [&](std::size_t first, std::size_t end, unsigned scale) {
    const std::size_t start = first / kRun * kRun;
    if (first == start) {
      const std::size_t bytes = std::min(kRun, n - start) * sizeof(U);
      std::memcpy(run.before.data(), base.data() + start * sizeof(U), bytes);
      std::memcpy(after.data(), now.data() + start * sizeof(U), bytes);
    }
    run.set_contexts(first - start, end - start, scale, mantissa_bits, lowest);
    if (end % kRun != 0 && end != n) return;  // the next line has more of this run
    for (std::size_t i = 0; i < end - start; ++i)
      run.differences[i] =
          static_cast<U>(to_ordered(after[i], floats) - to_ordered(run.before[i], floats));
    run.turn(end - start, floats);
    find_symbols(run, end - start, raw);
    for (std::size_t i = 0; i < end - start; ++i)
      symbols[start + i] = static_cast<std::uint16_t>(run.tables[i] * kSymbols + run.symbols[i]);
    for (std::size_t i = start; i < end; ++i) ++counts[i % 2][symbols[i]];
  });
  for (std::size_t i = 0; i < counts[0].size(); ++i) counts[0][i] += counts[1][i];
  const DenseCounts widths = dense_widths(counts[0]);
  const std::vector<std::byte> low = raw.finish();
  BitWriter head;
  put_scales(head, scales);
  put_tables(head, widths);
  put_count(head, low.size());
  std::vector<std::byte> section;
  append_number(section, static_cast<std::uint16_t>(lowest));
  const std::vector<std::byte> first_part = head.finish();
  section.insert(section.end(), first_part.begin(), first_part.end());
  section.insert(section.end(), low.begin(), low.end());
  const std::vector<std::byte> stream = SymbolWriter(widths).write(symbols);
  section.insert(section.end(), stream.begin(), stream.end());
  return section;
}

template <typename U>
void ApplyDense(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section,
                std::span<std::byte> elements) {
  const bool floats = mantissa_bits > 0;
  const std::size_t n = elements.size() / sizeof(U), line = line_of(grid);
  ByteReader head(section, "a dense change");
  const unsigned lowest = head.read<std::uint16_t>();
  const auto rest = section.subspan(head.position());
  BitReader bits(rest);
  const std::vector<std::uint8_t> scales = get_scales(bits, (n + line - 1) / line);
  const DenseSlots slots = get_tables(bits);
  const std::uint64_t raw_bytes = get_count(bits);
  ByteReader parts(rest.subspan(bits.end_byte()), "a dense change");
  BitReader raw(parts.take(raw_bytes));
  SymbolReader in(parts.take(parts.remaining()));
  Run<U> run;
  for_pieces(n, line, scales, [&](std::size_t first, std::size_t end, unsigned scale) {
    const std::size_t start = first / kRun * kRun;
    std::byte* at = elements.data() + start * sizeof(U);
    if (first == start) std::memcpy(run.before.data(), at, std::min(kRun, n - start) * sizeof(U));
    run.set_contexts(first - start, end - start, scale, mantissa_bits, lowest);
    if (end % kRun != 0 && end != n) return;  // the next line has more of this run
    const std::size_t count = end - start;
    in.read(slots, std::span(run.tables).first(count), run.symbols.data());
    find_differences(run, count, raw);
    run.turn(count, floats);
    for (std::size_t i = 0; i < count; ++i)
      run.before[i] = from_ordered(
          static_cast<U>(to_ordered(run.before[i], floats) + run.differences[i]), floats);
    std::memcpy(at, run.before.data(), count * sizeof(U));
  });
  in.check_end();
  raw.check_end();
}

}  // namespace

#define GBC_DENSE(U, bits)                                                                      \
  std::vector<std::byte> EncodeDense##bits(int mantissa_bits, ChangeGrid grid,                  \
                                           std::span<const std::byte> base,                     \
                                           std::span<const std::byte> now) {                    \
    return EncodeDense<U>(mantissa_bits, grid, base, now);                                      \
  }                                                                                             \
  void ApplyDense##bits(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section, \
                        std::span<std::byte> elements) {                                        \
    ApplyDense<U>(mantissa_bits, grid, section, elements);                                      \
  }
GBC_DENSE(std::uint8_t, 8)
GBC_DENSE(std::uint16_t, 16)
GBC_DENSE(std::uint32_t, 32)
GBC_DENSE(std::uint64_t, 64)
#undef GBC_DENSE

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::delta
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
