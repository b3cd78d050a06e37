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
#include "codec/delta/bins.h"
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
/// Low bits of an integer's difference.
constexpr int kMostLow = 46;
constexpr std::size_t kLevelSample = std::size_t{1} << 14, kLevelStride = 61;

std::size_t line_of(ChangeGrid grid) {
  return grid.rows > 1 && grid.cols >= kLeastLine && grid.cols <= kMostLine
             ? static_cast<std::size_t>(grid.cols)
             : kLine;
}

[[noreturn]] void bad_dense(const char* why) {
  throw Error(Errc::kCorrupt, std::string("a dense change ") + why + "; get the file again");
}

/// One more than the highest level.
inline unsigned levels_of(int bits, int mantissa_bits) {
  return mantissa_bits == 0 ? 2 : 1u << (bits - 1 - mantissa_bits);
}

/// The level that counts as 0: 24 below the highest that is not rare, at least 1. Of many elements
/// a part tells.
template <typename U>
std::uint16_t lowest_level(std::span<const std::byte> base, int mantissa_bits) {
  if (mantissa_bits == 0) return 1;
  std::vector<std::size_t> counts(levels_of(kBits<U>, mantissa_bits));
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

/// Elements that pass through each step together, in loops that compilers make vectors of.
template <typename U>
struct Run {
  std::array<U, kRun> before, after, differences;
  std::array<std::uint8_t, kRun> tables, bins, symbols;
  std::array<std::int16_t, kRun> units;

  /// Tables and bins of elements from `first` up to `end`, which are of one line. `bins` is 0 for
  /// elements without them; else one more than the bits of the base's element within its bin.
  void set_contexts(std::size_t first, std::size_t end, unsigned scale, int mantissa_bits,
                    unsigned lowest, int unused = 0) {
    constexpr auto kMagnitude = static_cast<U>(~kSign<U>);
    constexpr std::int16_t kFirst = kFolded;
    const auto least = static_cast<std::int16_t>(lowest);
    const auto unit = static_cast<std::int16_t>(
        least + (static_cast<int>(scale) - static_cast<int>(kFolded)) / 2);
    const auto small = static_cast<std::int16_t>(mantissa_bits == 0 ? -1 : mantissa_bits - 3);
    for (std::size_t i = first; i < end; ++i) {
      // Levels have 11 bits at most, a scale 8.
      const auto level = mantissa_bits == 0
                             ? std::int16_t{1}
                             : static_cast<std::int16_t>(static_cast<U>(before[i] & kMagnitude) >>
                                                         (mantissa_bits + unused));
      const auto rise = static_cast<std::int16_t>(std::max<std::int16_t>(level, 1) - least);
      const auto shift = std::max<std::int16_t>(rise, 0);
      const auto context = std::max<std::int16_t>(
          static_cast<std::int16_t>(static_cast<std::int16_t>(scale) - 2 * shift), 0);
      // Without choices, which GCC 12 would make branches of.
      const auto folded = std::max<std::int16_t>(static_cast<std::int16_t>(context - kFirst), 0);
      const auto base =
          std::clamp<std::int16_t>(static_cast<std::int16_t>(small - (folded >> 1)), 0, kBases - 1);
      const auto binned = static_cast<std::int16_t>(std::min<std::int16_t>(
          std::max<std::int16_t>(static_cast<std::int16_t>(context - kFirst + 1), 0), 1));
      const auto upper = static_cast<std::int16_t>((2 * base + (folded & 1)) & -binned);
      tables[i] = static_cast<std::uint8_t>(std::min(context, kFirst) + upper);
      bins[i] = static_cast<std::uint8_t>((std::min<int>(folded >> 1, kMostLow) + 1) & -binned);
      units[i] = unit;
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

/// Powers of two for each level, 1 for the lowest; what lies far above the highest counts as that.
template <typename U>
std::vector<double> level_units(int mantissa_bits, unsigned lowest) {
  std::vector<double> units(levels_of(kBits<U>, mantissa_bits));
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int above = static_cast<int>(std::max<std::size_t>(i, 1)) - static_cast<int>(lowest);
    units[i] = std::ldexp(1.0, std::min(above, static_cast<int>(kMostShift) + 1));
  }
  return units;
}

/// How far an element moved, in the distance of floats of the lowest level.
template <typename U>
double moved(U before, U after, int mantissa_bits, std::span<const double> units) {
  if (mantissa_bits == 0) {
    const auto difference = static_cast<U>(after - before);
    return static_cast<double>(static_cast<std::make_signed_t<U>>(difference) < 0
                                   ? static_cast<U>(U{0} - difference)
                                   : difference);
  }
  const auto value = [&](U element) {
    const auto magnitude = static_cast<U>(element & static_cast<U>(~kSign<U>));
    const auto level = static_cast<std::size_t>(magnitude >> mantissa_bits);
    const std::uint64_t one = std::uint64_t{1} << mantissa_bits;
    const auto digits = static_cast<double>((magnitude & (one - 1)) | (level > 0 ? one : 0));
    return (element & kSign<U> ? -digits : digits) * units[level];
  };
  return std::abs(value(after) - value(before));
}

/// The scale of a mean.
std::uint8_t scale_of(double mean) {
  if (mean < 2) return static_cast<std::uint8_t>(mean);
  const int top = std::ilogb(mean);
  const int scale = 2 * top + (mean >= std::ldexp(1.5, top) ? 1 : 0);
  return static_cast<std::uint8_t>(std::min(scale, static_cast<int>(kMostScale)));
}

/// The scale of each line, from a part of long ones.
template <typename U>
std::vector<std::uint8_t> scales_of(int mantissa_bits, unsigned lowest, std::size_t line,
                                    std::span<const std::byte> base,
                                    std::span<const std::byte> now) {
  const std::size_t n = base.size() / sizeof(U);
  const std::size_t stride = line < 256 ? 1 : line < 1024 ? 2 : 4;
  const std::vector<double> units = level_units<U>(mantissa_bits, lowest);
  std::vector<std::uint8_t> scales;
  for (std::size_t first = 0; first < n; first += line) {
    double sum = 0, seen = 0;
    for (std::size_t i = first; i < std::min(first + line, n); i += stride, ++seen)
      sum += moved(load<U>(base.data() + i * sizeof(U)), load<U>(now.data() + i * sizeof(U)),
                   mantissa_bits, units);
    scales.push_back(scale_of(sum * (1 << kFractionBits) / seen));
  }
  return scales;
}

/// Whether elements of a run have bins, or bits beside their symbols.
template <typename U>
bool is_mixed(const Run<U>& run, std::size_t count) {
  std::uint8_t binned = 0, most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    binned = static_cast<std::uint8_t>(binned | run.bins[i]);
    most = std::max(most, run.symbols[i]);
  }
  return binned > 0 || most >= kBeyond;
}

/// The place of a signed value in 0, 1, -1, 2, -2, ...; without a choice, which GCC 12 would make a
/// branch of.
template <typename U>
U place_of(U value) {
  const auto minus = static_cast<U>(U{0} - value);
  const auto sign = static_cast<U>(U{0} - static_cast<U>(minus >> (kBits<U> - 1)));
  return static_cast<U>(static_cast<U>(minus << 1) ^ sign);
}

/// The symbol of a value, and what is beyond it.
template <typename Writer>
std::uint8_t put_value(Writer& raw, std::int64_t value) {
  if (value <= kDirect && value >= -static_cast<std::int64_t>(kDirect)) [[likely]]
    return static_cast<std::uint8_t>(place_of(static_cast<std::uint64_t>(value)));
  put_beyond(raw, value);
  return static_cast<std::uint8_t>(symbol_beyond(value));
}

/// The same of an element in bins.
template <typename U, typename Writer>
std::uint8_t put_binned(Writer& raw, const Bins<U>& bins, U before, U after, int unit) {
  constexpr auto kMagnitude = static_cast<U>(~kSign<U>);
  const auto turned = static_cast<U>(before ^ after);
  if (turned == 0) return kSame;
  if (turned == kSign<U>) return kTurned;
  const auto now = static_cast<U>(after & kMagnitude);
  if (bins.level(now) > unit + kMostAbove) {
    put_long(raw, after, kBits<U>);
    return kAsItIs;
  }
  const std::int64_t bin = bins.index(now, unit);
  const std::int64_t from = bins.index(static_cast<U>(before & kMagnitude), unit);
  const std::uint8_t symbol = put_value(raw, (turned & kSign<U> ? -1 - bin : bin) - from);
  bins.put(raw, now, unit);
  return symbol;
}

/// The symbols of a run's differences, and their low bits to `out`.
template <typename U>
void find_symbols(Run<U>& run, std::size_t count, int mantissa_bits, BitWriter& out) {
  for (std::size_t i = 0; i < count; ++i) {
    run.symbols[i] = static_cast<std::uint8_t>(std::min<U>(place_of(run.differences[i]), kBeyond));
  }
  if (!is_mixed(run, count)) return;
  const Bins<U> bins(mantissa_bits);
  BitWriter::Run raw(out, count * kMostRaw);
  for (std::size_t i = 0; i < count; ++i) {
    if (run.bins[i] > 0 && mantissa_bits > 0) {
      run.symbols[i] = put_binned(raw, bins, run.before[i], run.after[i], run.units[i]);
      continue;
    }
    const int low = std::max(run.bins[i] - 1, 0);
    const std::int64_t difference = static_cast<std::make_signed_t<U>>(run.differences[i]);
    run.symbols[i] = put_value(raw, difference >> low);
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

/// The value of a symbol.
template <typename Reader>
HWY_INLINE std::int64_t take_value(Reader& raw, unsigned symbol) {
  if (symbol >= kBeyond) [[unlikely]]
    return static_cast<std::int64_t>(take_beyond(raw, symbol));
  const auto half = static_cast<std::int64_t>(symbol / 2);
  return symbol % 2 == 1 ? half + 1 : -half;
}

template <typename U, typename Size, typename Reader>
HWY_INLINE U take_binned(Size size, Reader& raw, const Bins<U>& bins, U before, int unit,
                         unsigned symbol) {
  constexpr auto kMagnitude = static_cast<U>(~kSign<U>);
  if (symbol >= kSame) [[unlikely]] {
    if (symbol == kAsItIs) return static_cast<U>(take_long(raw, 8 * size.bytes) << size.unused);
    return symbol == kSame ? before : static_cast<U>(before ^ kSign<U>);
  }
  // Sizes wrap around where no encoder wrote them, and are refused.
  const auto magnitude = static_cast<U>(static_cast<U>(before & kMagnitude) >> size.unused);
  const auto from = static_cast<std::uint64_t>(bins.index(magnitude, unit));
  const auto bin =
      static_cast<std::int64_t>(from + static_cast<std::uint64_t>(take_value(raw, symbol)));
  const U sign = static_cast<U>((before & kSign<U>)^(bin < 0 ? kSign<U> : U{0}));
  const U now = bins.take(raw, bin < 0 ? -1 - bin : bin, unit);
  return static_cast<U>(static_cast<U>(now << size.unused) | sign);
}

/// Differences of elements whose symbols do not tell them, and elements in bins.
template <typename U, typename Size, typename Reader>
HWY_INLINE void take_mixed(Size size, Run<U>& run, std::size_t count, int mantissa_bits,
                           Reader& raw) {
  const Bins<U> bins(mantissa_bits, 8 * size.bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned symbol = run.symbols[i];
    if (run.bins[i] > 0 && mantissa_bits > 0) {
      run.after[i] = take_binned(size, raw, bins, run.before[i], run.units[i], symbol);
      continue;
    }
    if (symbol >= kSame) bad_dense("has a symbol that its table has not");
    const int low = std::max(run.bins[i] - 1, 0);
    const auto value = static_cast<std::uint64_t>(take_value(raw, symbol));
    run.differences[i] = static_cast<U>(value << low | raw.take(low));
  }
}

template <typename U, typename Size>
void take_bits(Size size, Run<U>& run, std::size_t count, int mantissa_bits, BitReader& in) {
#ifndef GBC_FREESTANDING  // libgbz has one copy of the loop
  if (in.has(count * kMostRaw)) {
    BitReader::Run raw(in);
    take_mixed(size, run, count, mantissa_bits, raw);
    raw.end(in);
    return in.check();
  }
#endif
  take_mixed(size, run, count, mantissa_bits, in);
  in.check();
}

/// The elements of a run's symbols.
template <typename U, typename Size>
void find_elements(Size size, Run<U>& run, std::size_t count, int mantissa_bits, BitReader& in) {
  const bool floats = mantissa_bits > 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = static_cast<U>(run.symbols[i]);
    const auto sign = static_cast<U>(U{0} - static_cast<U>(place & 1));
    run.differences[i] = static_cast<U>(U{0} - static_cast<U>(static_cast<U>(place >> 1) ^ sign));
  }
  if (is_mixed(run, count)) take_bits(size, run, count, mantissa_bits, in);
  for (std::size_t i = 0; i < count && size.unused > 0; ++i)
    run.differences[i] = static_cast<U>(run.differences[i] << size.unused);
  run.turn(count, floats);
  for (std::size_t i = 0; i < count; ++i) {
    const U moved = from_ordered(
        static_cast<U>(to_ordered(run.before[i], floats) + run.differences[i]), floats);
    run.after[i] = run.bins[i] > 0 && floats ? run.after[i] : moved;
  }
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
  for_pieces(n, line, scales, [&](std::size_t first, std::size_t end, unsigned scale) {
    const std::size_t start = first / kRun * kRun;
    if (first == start) {
      const std::size_t bytes = std::min(kRun, n - start) * sizeof(U);
      std::memcpy(run.before.data(), base.data() + start * sizeof(U), bytes);
      std::memcpy(run.after.data(), now.data() + start * sizeof(U), bytes);
    }
    run.set_contexts(first - start, end - start, scale, mantissa_bits, lowest);
    if (end % kRun != 0 && end != n) return;  // the next line has more of this run
    for (std::size_t i = 0; i < end - start; ++i)
      run.differences[i] =
          static_cast<U>(to_ordered(run.after[i], floats) - to_ordered(run.before[i], floats));
    run.turn(end - start, floats);
    find_symbols(run, end - start, mantissa_bits, raw);
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
void load_run(ElementSize<U>, const std::byte* from, std::span<U> to) {
  std::memcpy(to.data(), from, to.size_bytes());
}
template <typename U>
void store_run(ElementSize<U>, std::span<const U> from, std::byte* to) {
  std::memcpy(to, from.data(), from.size_bytes());
}
inline void load_run(AnySize size, const std::byte* from, std::span<std::uint64_t> to) {
  for (std::uint64_t& element : to) {
    element = 0;
    std::memcpy(&element, from, static_cast<std::size_t>(size.bytes));
    element <<= size.unused;
    from += size.bytes;
  }
}
inline void store_run(AnySize size, std::span<const std::uint64_t> from, std::byte* to) {
  for (const std::uint64_t element : from) {
    const std::uint64_t low = element >> size.unused;
    std::memcpy(to, &low, static_cast<std::size_t>(size.bytes));
    to += size.bytes;
  }
}

template <typename U, typename Size>
void ApplyDense(Size size, int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section,
                std::span<std::byte> elements) {
  const auto width = static_cast<std::size_t>(size.bytes);
  const std::size_t n = elements.size() / width, line = line_of(grid);
  ByteReader head(section, "a dense change");
  const unsigned lowest = head.read<std::uint16_t>();
  if (lowest < 1 || lowest >= levels_of(8 * size.bytes, mantissa_bits))
    bad_dense("has another lowest level than there is");
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
    std::byte* at = elements.data() + start * width;
    if (first == start)
      load_run(size, at, std::span<U>(run.before).first(std::min(kRun, n - start)));
    run.set_contexts(first - start, end - start, scale, mantissa_bits, lowest, size.unused);
    if (end % kRun != 0 && end != n) return;  // the next line has more of this run
    const std::size_t count = end - start;
    in.read(slots, std::span(run.tables).first(count), run.symbols.data());
    find_elements(size, run, count, mantissa_bits, raw);
    store_run(size, std::span<const U>(run.after).first(count), at);
  });
  in.check_end();
  raw.check_end();
}

}  // namespace

#ifdef GBC_FREESTANDING
HWY_NOINLINE void apply_any(int bytes, int mantissa_bits, ChangeGrid grid,
                            std::span<const std::byte> section, std::span<std::byte> elements) {
  ApplyDense<std::uint64_t>(AnySize(bytes), mantissa_bits, grid, section, elements);
}
#define GBC_APPLY_DENSE(U) apply_any(sizeof(U), mantissa_bits, grid, section, elements)
#else
#define GBC_APPLY_DENSE(U) ApplyDense<U>(ElementSize<U>(), mantissa_bits, grid, section, elements)
#endif
#define GBC_DENSE(U, bits)                                                                      \
  std::vector<std::byte> EncodeDense##bits(int mantissa_bits, ChangeGrid grid,                  \
                                           std::span<const std::byte> base,                     \
                                           std::span<const std::byte> now) {                    \
    return EncodeDense<U>(mantissa_bits, grid, base, now);                                      \
  }                                                                                             \
  void ApplyDense##bits(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section, \
                        std::span<std::byte> elements) {                                        \
    GBC_APPLY_DENSE(U);                                                                         \
  }
GBC_DENSE(std::uint8_t, 8)
GBC_DENSE(std::uint16_t, 16)
GBC_DENSE(std::uint32_t, 32)
GBC_DENSE(std::uint64_t, 64)
#undef GBC_DENSE
#undef GBC_APPLY_DENSE

}  // namespace HWY_NAMESPACE
}  // namespace gbcompress::codec::delta
HWY_AFTER_NAMESPACE();

#endif  // toggled once a level
