#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/byte_reader.h"
#include "codec/delta/classes.h"
#include "codec/delta/forms.h"
#include "codec/delta/number_model.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {
namespace {

/// Changes between two places where a chunk of the stream may end.
constexpr std::size_t kChangesASegment = 1024;
/// Of more elements, every 16th block of 64 tells how many there are of each level.
constexpr std::size_t kManyElements = std::size_t{1} << 18, kSampled = 16;

[[noreturn]] void corrupt(const char* why) {
  throw Error(Errc::kCorrupt, std::string("a sparse change ") + why + "; get the file again");
}

/// One change: `gap` unchanged elements of its class lie between it and the one before.
template <typename U>
struct Change {
  std::uint64_t gap;
  U difference;
};

/// Gaps and differences of one class.
template <typename U>
class ClassModel {
 public:
  void put(RansWriter& out, Change<U> change) {
    gaps_.put(out, context(), change.gap);
    learn(change.gap);
    const auto difference = static_cast<std::make_signed_t<U>>(change.difference);
    const bool down = difference < 0;
    const auto size = static_cast<U>(down ? U{0} - change.difference : change.difference);
    sizes_.put(out, 0, static_cast<std::uint64_t>(size) - 1);
    out.put_even(down, 1);
  }

  Change<U> get(RansReader& in) {
    const std::uint64_t gap = gaps_.get(in, context());
    learn(gap);
    const std::uint64_t size = sizes_.get(in, 0);
    if (size >= kSign<U>) corrupt("is longer than its elements");
    const auto difference = static_cast<U>(size + 1);
    return {gap, in.take_even(1) ? static_cast<U>(U{0} - difference) : difference};
  }

 private:
  static constexpr std::size_t kContexts = 24;
  static constexpr std::uint64_t kMostGap = std::uint64_t{1} << 40;

  /// By the octave of the mean of the last gaps.
  std::size_t context() const {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(mean_ >> 4)),
                                 kContexts - 1);
  }
  void learn(std::uint64_t gap) {
    const auto seen = static_cast<std::int64_t>(std::min(gap, kMostGap) << 4);
    mean_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(mean_) +
                                       ((seen - static_cast<std::int64_t>(mean_)) >> 3));
  }

  std::uint64_t mean_ = 0;  ///< sixteenths
  NumberModel<kContexts> gaps_;
  NumberModel<1> sizes_;
};

/// A bit for each element of as many blocks as classify_some() returns, set where they differ.
template <typename U>
void compare_some(std::span<const std::byte> base, std::span<const std::byte> now,
                  std::span<std::uint64_t, kBlocksAtOnce> masks) {
  constexpr std::size_t kBlockBytes = kBlock * sizeof(U);
  const std::size_t whole = std::min(base.size() / kBlockBytes, kBlocksAtOnce);
  compare(base.data(), now.data(), sizeof(U), masks.first(whole));
  if (whole == kBlocksAtOnce || whole * kBlockBytes == base.size()) return;
  std::array<std::byte, kBlockBytes> before{}, after{};
  std::copy(base.begin() + whole * kBlockBytes, base.end(), before.begin());
  std::copy(now.begin() + whole * kBlockBytes, now.end(), after.begin());
  compare(before.data(), after.data(), sizeof(U), masks.subspan(whole, 1));
}

/// Calls body(first element of the block, its classes, where it differs) for each block.
template <typename U, typename Body>
void for_blocks(std::span<const std::uint64_t> limits, std::span<const std::byte> base,
                std::span<const std::byte> now, const Body& body) {
  std::array<BlockClasses, kBlocksAtOnce> blocks;
  std::array<std::uint64_t, kBlocksAtOnce> differing;
  for (std::size_t at = 0; at < base.size(); at += kBlocksAtOnce * kBlock * sizeof(U)) {
    const std::size_t count = classify_some(base.subspan(at), sizeof(U), limits, blocks);
    compare_some<U>(base.subspan(at), now.subspan(at), differing);
    for (std::size_t i = 0; i < count; ++i)
      body(at / sizeof(U) + i * kBlock, blocks[i], differing[i]);
  }
}

template <typename U>
Thresholds thresholds_for(int mantissa_bits, std::span<const std::byte> base,
                          std::span<const std::byte> now) {
  if (mantissa_bits == 0) return {};
  const std::size_t levels = std::size_t{1} << (kBits<U> - 1 - mantissa_bits);
  std::vector<std::uint64_t> all(levels), changed(levels);
  const std::size_t n = base.size() / sizeof(U), stride = n > kManyElements ? kSampled : 1;
  for (std::size_t first = 0; first < n; first += stride * kBlock) {
    const std::size_t count = std::min(kBlock, n - first);
    for (std::size_t i = first; i < first + count; ++i) {
      const U element = load<U>(base.data() + i * sizeof(U));
      const unsigned level = level_of(element, mantissa_bits);
      ++all[level];
      changed[level] += element != load<U>(now.data() + i * sizeof(U));
    }
  }
  return choose_classes(all, changed);
}

/// The changes of each class, in the order of the elements.
template <typename U>
std::vector<std::vector<Change<U>>> find_changes(std::span<const std::uint64_t> limits, bool floats,
                                                 std::span<const std::byte> base,
                                                 std::span<const std::byte> now) {
  const std::size_t classes = limits.size() + 1;
  std::vector<std::vector<Change<U>>> changes(classes);
  std::array<std::uint64_t, kMostClasses> gaps{};
  const auto find = [&](std::size_t first, const BlockClasses& block, std::uint64_t differing) {
    if (differing == 0) {
      for (std::size_t k = 0; k < classes; ++k) gaps[k] += block.counts[k];
      return;
    }
    for (std::size_t k = 0; k < classes; ++k) {
      const std::uint64_t left = block.masks[k];
      std::uint64_t before = 0;
      for (std::uint64_t moved = left & differing; moved != 0; moved &= moved - 1) {
        const auto bit = static_cast<unsigned>(std::countr_zero(moved));
        const auto passed =
            static_cast<std::uint64_t>(std::popcount(left & ((std::uint64_t{1} << bit) - 1)));
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
  for_blocks<U>(limits, base, now, find);
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
std::vector<Pending<U>> read_changes(std::span<const std::byte> stream, std::size_t classes,
                                     std::uint64_t elements) {
  RansReader in(stream);
  NumberModel<1> counts;
  std::vector<Pending<U>> pending(classes);
  // A sign takes a bit of each change.
  std::uint64_t most = std::min<std::uint64_t>(elements, 8 * stream.size());
  for (Pending<U>& own : pending) {
    in.begin_segment();
    const std::uint64_t count = counts.get(in, 0);
    if (count > most) corrupt("has more changes than elements");
    most -= count;
    own.changes.resize(count);
    const auto model = std::make_unique<ClassModel<U>>();
    for (std::uint64_t first = 0; first < count; first += kChangesASegment) {
      in.begin_segment();
      RansReader local = in;  // stays in registers
      const std::uint64_t end = std::min<std::uint64_t>(first + kChangesASegment, count);
      for (std::uint64_t i = first; i < end; ++i) own.changes[i] = model->get(local);
      in = local;
      if (end == first + kChangesASegment) in.end_segment();
    }
    own.gap = count > 0 ? own.changes.front().gap : ~std::uint64_t{0};
  }
  if (!in.at_end()) corrupt("does not end with its stream");
  return pending;
}

/// Applies what falls into the elements of a class in a block.
template <typename U>
void apply_block(std::uint64_t left, std::uint64_t count, bool floats, std::byte* elements,
                 Pending<U>& pending) {
  while (pending.gap < count) {
    count -= pending.gap + 1;
    for (; pending.gap > 0; --pending.gap) left &= left - 1;
    std::byte* at = elements + static_cast<std::size_t>(std::countr_zero(left)) * sizeof(U);
    store(at, from_ordered(static_cast<U>(to_ordered(load<U>(at), floats) +
                                          pending.changes[pending.next].difference),
                           floats));
    left &= left - 1;
    pending.advance();
  }
  if (pending.gap != ~std::uint64_t{0}) pending.gap -= count;
}

template <typename U>
Thresholds read_thresholds(ByteReader& head, int mantissa_bits) {
  const unsigned levels = mantissa_bits == 0 ? 1 : 1u << (kBits<U> - 1 - mantissa_bits);
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

}  // namespace

template <typename U>
std::vector<std::byte> encode_sparse(int mantissa_bits, std::span<const std::byte> base,
                                     std::span<const std::byte> now) {
  const Thresholds thresholds = thresholds_for<U>(mantissa_bits, base, now);
  const auto changes =
      find_changes<U>(limits_of(thresholds, mantissa_bits), mantissa_bits > 0, base, now);
  RansWriter out;
  NumberModel<1> counts;
  for (const auto& own : changes) {
    counts.put(out, 0, own.size());
    const auto model = std::make_unique<ClassModel<U>>();
    for (std::size_t i = 0; i < own.size(); ++i) {
      model->put(out, own[i]);
      if (i % kChangesASegment == kChangesASegment - 1) out.end_segment();
    }
  }
  std::vector<std::byte> section{static_cast<std::byte>(thresholds.size() + 1)};
  for (const std::uint16_t threshold : thresholds) append_number(section, threshold);
  const std::vector<std::byte> stream = out.finish();
  section.insert(section.end(), stream.begin(), stream.end());
  return section;
}

template <typename U>
void apply_sparse(int mantissa_bits, std::span<const std::byte> section,
                  std::span<std::byte> elements) {
  const bool floats = mantissa_bits > 0;
  ByteReader head(section, "a sparse change");
  const Thresholds thresholds = read_thresholds<U>(head, mantissa_bits);
  const std::vector<std::uint64_t> limits = limits_of(thresholds, mantissa_bits);
  std::vector<Pending<U>> pending = read_changes<U>(section.subspan(head.position()),
                                                    limits.size() + 1, elements.size() / sizeof(U));
  std::array<BlockClasses, kBlocksAtOnce> blocks;
  for (std::size_t at = 0; at < elements.size(); at += kBlocksAtOnce * kBlock * sizeof(U)) {
    const std::size_t count = classify_some(elements.subspan(at), sizeof(U), limits, blocks);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k <= limits.size(); ++k)
        apply_block(blocks[i].masks[k], blocks[i].counts[k], floats,
                    elements.data() + at + i * kBlock * sizeof(U), pending[k]);
  }
  for (const Pending<U>& own : pending)
    if (own.next < own.changes.size()) corrupt("has changes beyond its elements");
}

#define GBC_SPARSE(U)                                                               \
  template std::vector<std::byte> encode_sparse<U>(int, std::span<const std::byte>, \
                                                   std::span<const std::byte>);     \
  template void apply_sparse<U>(int, std::span<const std::byte>, std::span<std::byte>);
GBC_SPARSE(std::uint8_t)
GBC_SPARSE(std::uint16_t)
GBC_SPARSE(std::uint32_t)
GBC_SPARSE(std::uint64_t)
#undef GBC_SPARSE

}  // namespace gbcompress::codec::delta
