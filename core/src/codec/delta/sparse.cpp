#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/byte_reader.h"
#include "codec/delta/bits.h"
#include "codec/delta/classes.h"
#include "codec/delta/forms.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {
namespace {

/// About so many elements, in blocks of 64, tell how many there are of each level; of large tensors
/// a sixteenth.
constexpr std::size_t kSample = std::size_t{1} << 15, kMostStride = 16;

[[noreturn]] void corrupt(const char* why) {
  throw Error(Errc::kCorrupt, std::string("a sparse change ") + why + "; get the file again");
}

/// One change: `gap` unchanged elements of its class lie between it and the one before.
template <typename U>
struct Change {
  std::uint64_t gap;
  U difference;
};

template <typename U>
Thresholds thresholds_for(int mantissa_bits, std::span<const std::byte> base,
                          std::span<const std::uint64_t> differing) {
  if (mantissa_bits == 0) return {};
  const std::size_t levels = std::size_t{1} << (kBits<U> - 1 - mantissa_bits);
  std::vector<std::uint64_t> all(levels), changed(levels);
  const std::size_t n = base.size() / sizeof(U);
  const std::size_t stride = std::clamp<std::size_t>(n / kSample, 1, kMostStride);
  const auto level = [&](std::size_t i) {
    return level_of(load<U>(base.data() + i * sizeof(U)), mantissa_bits);
  };
  for (std::size_t block = 0; block < differing.size(); block += stride) {
    const std::size_t first = block * kBlock, end = std::min(first + kBlock, n);
    for (std::size_t i = first; i < end; ++i) ++all[level(i)];
    for (std::uint64_t moved = differing[block]; moved != 0; moved &= moved - 1)
      ++changed[level(first + static_cast<std::size_t>(std::countr_zero(moved)))];
  }
  return choose_classes(all, changed);
}

/// The changes of each class, in the order of the elements.
/// @param differing  a bit for each element
template <typename U>
std::vector<std::vector<Change<U>>> find_changes(std::span<const std::uint64_t> limits, bool floats,
                                                 std::span<const std::byte> base,
                                                 std::span<const std::byte> now,
                                                 std::span<const std::uint64_t> differing) {
  const std::size_t classes = limits.size() + 1;
  std::vector<std::vector<Change<U>>> changes(classes);
  std::array<std::uint64_t, kMostClasses> gaps{};
  const auto find = [&](std::size_t first, const BlockClasses& block, std::uint64_t moved_ones) {
    for (std::size_t k = 0; k < classes; ++k) {
      const std::uint64_t own = block.masks[k];
      std::uint64_t before = 0;
      for (std::uint64_t moved = own & moved_ones; moved != 0; moved &= moved - 1) {
        const auto bit = static_cast<unsigned>(std::countr_zero(moved));
        const auto passed =
            static_cast<std::uint64_t>(std::popcount(own & ((std::uint64_t{1} << bit) - 1)));
        const std::size_t at = (first + bit) * sizeof(U);
        changes[k].push_back({gaps[k] + passed - before,
                              static_cast<U>(to_ordered(load<U>(now.data() + at), floats) -
                                             to_ordered(load<U>(base.data() + at), floats))});
        gaps[k] = 0;
        before = passed + 1;
      }
      gaps[k] += block.counts[k] - before;
    }
  };
  std::array<BlockClasses, kBlocksAtOnce> blocks;
  for (std::size_t first = 0; first < differing.size(); first += kBlocksAtOnce) {
    const auto rest = base.subspan(first * kBlock * sizeof(U));
    const std::size_t count = classify_some(rest, sizeof(U), limits, blocks);
    for (std::size_t i = 0; i < count; ++i)
      find((first + i) * kBlock, blocks[i], differing[first + i]);
  }
  return changes;
}

template <typename U>
U size_of(U difference) {
  return static_cast<std::make_signed_t<U>>(difference) < 0 ? static_cast<U>(U{0} - difference)
                                                            : difference;
}

/// Where a list of numbers begins: their count, and where there are some, about their mean.
Drifting begin_numbers(BitWriter& out, std::uint64_t count, double sum) {
  const int octave =
      Drifting::octave_of(sum / static_cast<double>(std::max<std::uint64_t>(count, 1)));
  if (count > 0) out.put(static_cast<std::uint64_t>(octave), Drifting::kOctaveBits);
  return Drifting(octave);
}

template <typename U>
void write_changes(BitWriter& out, std::span<const Change<U>> changes) {
  double gaps = 0, sizes = 0;
  std::uint64_t larger = 0;
  for (const Change<U>& change : changes) {
    gaps += static_cast<double>(change.gap);
    if (const U size = size_of(change.difference); size > 1) {
      ++larger;
      sizes += static_cast<double>(size) - 2;
    }
  }
  put_count(out, changes.size());
  if (changes.empty()) return;
  Drifting places = begin_numbers(out, changes.size(), gaps);
  for (const Change<U>& change : changes) places.put(out, change.gap);
  for (const Change<U>& change : changes)
    out.put(static_cast<std::make_signed_t<U>>(change.difference) < 0, 1);
  put_count(out, larger);
  if (larger == 0) return;
  Drifting between =
      begin_numbers(out, larger, static_cast<double>(changes.size()) - static_cast<double>(larger));
  Drifting beyond = begin_numbers(out, larger, sizes);
  std::uint64_t gap = 0;
  for (const Change<U>& change : changes) {
    const U size = size_of(change.difference);
    if (size < 2) {
      ++gap;
      continue;
    }
    between.put(out, std::exchange(gap, 0));
    beyond.put(out, static_cast<std::uint64_t>(size) - 2);
  }
}

Drifting begin_numbers(BitReader& in) {
  return Drifting(
      std::min(static_cast<int>(in.take(Drifting::kOctaveBits)), Drifting::kMostOctave));
}

/// Of one class.
/// @param most  of them
/// @param bits  of an element
template <typename U>
std::vector<Change<U>> read_changes(BitReader& in, std::uint64_t most, int bits) {
  const std::uint64_t count = get_count(in);
  if (count > most) corrupt("has more changes than elements");
  std::vector<Change<U>> changes(count);
  if (count == 0) return changes;
  Drifting places = begin_numbers(in);
  for (Change<U>& change : changes) change.gap = places.get(in);
  for (std::size_t i = 0; i < count;) {
    std::uint64_t signs = in.peek();
    const std::size_t end = std::min<std::size_t>(i + 56, count);
    in.skip(static_cast<int>(end - i));
    for (; i < end; ++i, signs >>= 1)
      changes[i].difference = static_cast<U>(1 - 2 * static_cast<int>(signs & 1));
  }
  const std::uint64_t larger = get_count(in);
  if (larger > count) corrupt("has more sizes than changes");
  if (larger == 0) return changes;
  Drifting between = begin_numbers(in), beyond = begin_numbers(in);
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < larger; ++i, ++at) {
    const std::uint64_t gap = between.get(in), size = beyond.get(in);
    if (gap >= count - at) corrupt("has sizes beyond its changes");
    if (size >= (std::uint64_t{1} << (bits - 1)) - 1) corrupt("is longer than its elements");
    at += gap;
    if (changes[at].difference == 1)
      changes[at].difference = static_cast<U>(size + 2);
    else
      changes[at].difference = static_cast<U>(U{0} - static_cast<U>(size + 2));
  }
  in.check();
  return changes;
}

/// Where the changes of a class are still to go.
template <typename U>
struct Pending {
  std::vector<Change<U>> changes;
  std::size_t next = 0;
  std::uint64_t gap = 0;  ///< elements of the class before the next one
  void advance() { gap = ++next < changes.size() ? changes[next].gap : ~std::uint64_t{0}; }
};

template <typename U>
std::vector<Pending<U>> read_classes(std::span<const std::byte> stream, std::size_t classes,
                                     std::uint64_t elements, int bits) {
  BitReader in(stream);
  std::vector<Pending<U>> pending(classes);
  // A place takes a bit of each change, and so does a sign.
  std::uint64_t most = std::min<std::uint64_t>(elements, 4 * stream.size());
  for (Pending<U>& own : pending) {
    own.changes = read_changes<U>(in, most, bits);
    most -= own.changes.size();
    own.gap = own.changes.empty() ? ~std::uint64_t{0} : own.changes.front().gap;
  }
  in.check_end();
  return pending;
}

template <typename U>
U get(ElementSize<U>, const std::byte* from) {
  return load<U>(from);
}
template <typename U>
void put(ElementSize<U>, std::byte* to, U element) {
  store(to, element);
}
template <typename U>
U get(AnySize size, const std::byte* from) {
  std::uint64_t element = 0;
  std::memcpy(&element, from, static_cast<std::size_t>(size.bytes));
  return element << size.unused;
}
template <typename U>
void put(AnySize size, std::byte* to, U element) {
  element >>= size.unused;
  std::memcpy(to, &element, static_cast<std::size_t>(size.bytes));
}

/// Applies what falls into the elements of a class in a block.
template <typename U, typename Size>
void apply_block(Size size, std::uint64_t left, std::uint64_t count, bool floats,
                 std::byte* elements, Pending<U>& pending) {
  while (pending.gap < count) {
    count -= pending.gap + 1;
    for (; pending.gap > 0; --pending.gap) left &= left - 1;
    std::byte* at = elements + static_cast<std::size_t>(std::countr_zero(left) * size.bytes);
    const auto difference = static_cast<U>(pending.changes[pending.next].difference << size.unused);
    put(size, at,
        from_ordered(static_cast<U>(to_ordered(get<U>(size, at), floats) + difference), floats));
    left &= left - 1;
    pending.advance();
  }
  if (pending.gap != ~std::uint64_t{0}) pending.gap -= count;
}

/// @param bits  of an element
Thresholds read_thresholds(ByteReader& head, int bits, int mantissa_bits) {
  const unsigned levels = mantissa_bits == 0 ? 1 : 1u << (bits - 1 - mantissa_bits);
  const auto classes = head.read<std::uint8_t>();
  if (classes < 1 || classes > kMostClasses || (classes > 1 && mantissa_bits == 0))
    corrupt("has another number of classes than its elements");
  Thresholds thresholds;
  for (int k = 1; k < classes; ++k) {
    thresholds.push_back(head.read<std::uint16_t>());
    if (thresholds.back() < 1 || thresholds.back() >= levels ||
        (k > 1 && thresholds.back() <= thresholds[thresholds.size() - 2]))
      corrupt("has classes that are not in order");
  }
  return thresholds;
}

template <typename U, typename Size>
void apply(Size size, int mantissa_bits, std::span<const std::byte> section,
           std::span<std::byte> elements) {
  const bool floats = mantissa_bits > 0;
  const int bits = 8 * size.bytes;
  const auto width = static_cast<std::size_t>(size.bytes);
  ByteReader head(section, "a sparse change");
  const Thresholds thresholds = read_thresholds(head, bits, mantissa_bits);
  const std::vector<std::uint64_t> limits = limits_of(thresholds, mantissa_bits);
  std::vector<Pending<U>> pending = read_classes<U>(
      section.subspan(head.position()), limits.size() + 1, elements.size() / width, bits);
  std::array<BlockClasses, kBlocksAtOnce> blocks;
  for (std::size_t at = 0; at < elements.size(); at += kBlocksAtOnce * kBlock * width) {
    const std::size_t count = classify_some(elements.subspan(at), size.bytes, limits, blocks);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k <= limits.size(); ++k)
        apply_block(size, blocks[i].masks[k], blocks[i].counts[k], floats,
                    elements.data() + at + i * kBlock * width, pending[k]);
  }
  for (const Pending<U>& own : pending)
    if (own.next < own.changes.size()) corrupt("has changes beyond its elements");
}

#ifdef GBC_FREESTANDING
[[gnu::noinline]] void apply_any(int bytes, int mantissa_bits, std::span<const std::byte> section,
                                 std::span<std::byte> elements) {
  apply<std::uint64_t>(AnySize(bytes), mantissa_bits, section, elements);
}
#endif

}  // namespace

template <typename U>
std::vector<std::byte> encode_sparse(int mantissa_bits, std::span<const std::byte> base,
                                     std::span<const std::byte> now,
                                     std::span<const std::uint64_t> differing) {
  const Thresholds thresholds = thresholds_for<U>(mantissa_bits, base, differing);
  const auto changes = find_changes<U>(limits_of(thresholds, mantissa_bits), mantissa_bits > 0,
                                       base, now, differing);
  BitWriter out;
  for (const auto& own : changes) write_changes<U>(out, own);
  std::vector<std::byte> section{static_cast<std::byte>(thresholds.size() + 1)};
  for (const std::uint16_t threshold : thresholds) append_number(section, threshold);
  const std::vector<std::byte> stream = out.finish();
  section.insert(section.end(), stream.begin(), stream.end());
  return section;
}

template <typename U>
void apply_sparse(int mantissa_bits, std::span<const std::byte> section,
                  std::span<std::byte> elements) {
#ifdef GBC_FREESTANDING
  apply_any(sizeof(U), mantissa_bits, section, elements);
#else
  apply<U>(ElementSize<U>(), mantissa_bits, section, elements);
#endif
}

#define GBC_SPARSE(U)                                                               \
  template std::vector<std::byte> encode_sparse<U>(int, std::span<const std::byte>, \
                                                   std::span<const std::byte>,      \
                                                   std::span<const std::uint64_t>); \
  template void apply_sparse<U>(int, std::span<const std::byte>, std::span<std::byte>);
GBC_SPARSE(std::uint8_t)
GBC_SPARSE(std::uint16_t)
GBC_SPARSE(std::uint32_t)
GBC_SPARSE(std::uint64_t)
#undef GBC_SPARSE

}  // namespace gbcompress::codec::delta
