// Sections of planes, stripe by stripe.
#include "artifact/lookahead.h"
#include "artifact/sections/bit_groups.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/plane_parts.h"
#include "artifact/sections/varint.h"
#include "base/mapped_inputs.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

/// Bytes of elements of the stripes that each thread makes ahead of the one that is written.
constexpr std::int64_t kAhead = 4 * std::int64_t{kPlaneStripe};

void append(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Buffers of one stripe, which other stripes reuse.
struct StripeScratch {
  Bytes planes, escaped, stripe;
  std::vector<std::uint16_t> words;
  std::vector<std::uint8_t> classes;
};

/// Reuses buffers of finished stripes, whose pages are mapped.
class ScratchPool {
 public:
  std::shared_ptr<StripeScratch> take() {
    std::unique_ptr<StripeScratch> taken;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        taken = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!taken) taken = std::make_unique<StripeScratch>();
    return {taken.release(), [this](StripeScratch* scratch) {
              const std::lock_guard lock(mutex_);
              free_.emplace_back(scratch);
            }};
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<StripeScratch>> free_;
};

/// Makes stripes of one section.
class StripeWriter {
 public:
  StripeWriter(std::span<const std::byte> raw, PlanesChoice choice)
      : raw_(raw), choice_(std::move(choice)) {
    for (const auto& tables : choice_.tables) {
      encoders_.emplace_back(tables);
      spans_.emplace_back();
      for (const auto& widths : tables) spans_.back().push_back(span_of(widths));
    }
  }
  const PlanesChoice& choice() const { return choice_; }
  std::size_t stripes() const { return (raw_.size() + kPlaneStripe - 1) / kPlaneStripe; }
  std::span<const std::byte> elements_of(std::size_t index) const {
    const std::size_t begin = index * kPlaneStripe;
    return raw_.subspan(begin, std::min(kPlaneStripe, raw_.size() - begin));
  }

  Bytes head() const {
    const PlanesForm& form = choice_.form;
    Bytes to;
    const auto run = static_cast<unsigned>(std::countr_zero(form.run / codec::kLeastRun));
    to.push_back(
        static_cast<std::byte>(form.mantissa + (form.escape ? kEscapeFlag : 0) + run * kRunUnit));
    to.push_back(static_cast<std::byte>(form.base));
    if (form.escape) to.push_back(static_cast<std::byte>(*form.escape));
    std::size_t counts = choice_.tables.front().size();
    for (std::size_t plane = 1; plane < form.size; ++plane)
      counts += (choice_.tables[plane].size() * kLaterTables) << (plane - 1);
    if (form.zeros_apart) counts += std::size_t{kLaterTables} << (form.size - 1);
    append_varint(to, static_cast<std::int64_t>(counts));
    for (const auto& tables : choice_.tables)
      for (const auto& widths : tables) codec::append_widths(to, widths);
    return to;
  }

  /// Leaves the stripe in scratch.stripe.
  void make(std::size_t index, StripeScratch& scratch) const {
    const auto raw = elements_of(index);
    const PlanesForm& form = choice_.form;
    const std::size_t count = raw.size() / form.size;
    Bytes& to = scratch.stripe;
    const bool last = index + 1 == stripes();
    to.assign(last ? 0 : sizeof(std::uint32_t), std::byte{});
    scratch.planes.resize(raw.size());
    std::byte* const planes = scratch.planes.data();
    split(form, raw, planes);
    const std::size_t some = form.zeros_apart ? set_zeros_apart(form, raw, planes) : count;
    const codec::ByteClasses classes = classes_of({planes, count}, scratch.classes);
    append_classes(scratch.classes, to);
    if (form.escape) put_escaped(raw, {planes, count}, classes, scratch.escaped, to);
    for (std::size_t plane = 0; plane < form.size; ++plane)
      append_plane(plane, {planes + plane * count, plane == 0 ? count : some},
                   plane == 0 ? classes : codec::ByteClasses{}, scratch.words, to);
    if (last) return;
    const auto size = static_cast<std::uint32_t>(to.size() - sizeof(std::uint32_t));
    std::memcpy(to.data(), &size, sizeof size);
  }

 private:
  /// The longest range of bytes that all have a width.
  struct Span {
    std::uint8_t first = 1, last = 0;
  };
  static Span span_of(const codec::ByteWidths& widths) {
    Span best;
    int most = 0, first = 0;
    for (int value = 0; value <= 256; ++value) {
      if (value < 256 && widths[static_cast<std::size_t>(value)] > 0) continue;
      if (value - first > most) {
        most = value - first;
        best = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(value - 1)};
      }
      first = value + 1;
    }
    return best;
  }
  /// Whether all bytes are in that range.
  static bool within(std::span<const std::byte> bytes, Span span) {
    std::uint8_t least = 255, most = 0;
    for (const std::byte byte : bytes) {
      least = std::min(least, std::to_integer<std::uint8_t>(byte));
      most = std::max(most, std::to_integer<std::uint8_t>(byte));
    }
    return least >= span.first && most <= span.last;
  }
  /// Calls visit(place) for bytes without a width in the tables of their runs.
  template <typename Visit>
  void for_missing(std::size_t plane, std::span<const std::byte> bytes,
                   const codec::ByteClasses& classes, const Visit& visit) const {
    const std::size_t run = classes.of_run.empty() ? codec::kLeastRun : classes.run;
    for (std::size_t at = 0; at < bytes.size(); at += run) {
      const auto part = bytes.subspan(at, std::min(run, bytes.size() - at));
      const std::size_t table = classes.at(at);
      if (within(part, spans_[plane][table])) continue;
      const codec::ByteWidths& widths = choice_.tables[plane][table];
      for (std::size_t i = 0; i < part.size(); ++i)
        if (widths[std::to_integer<std::size_t>(part[i])] == 0) visit(at + i);
    }
  }

  codec::ByteClasses classes_of(std::span<const std::byte> plane,
                                std::vector<std::uint8_t>& classes) const {
    classes.clear();
    const std::size_t run = choice_.form.run;
    if (choice_.tables.front().size() < 2) return {{}, run};
    for (std::size_t at = 0; at < plane.size(); at += run)
      classes.push_back(choice_.class_of(plane.subspan(at, std::min(run, plane.size() - at))));
    return {classes, run};
  }
  static void append_classes(const std::vector<std::uint8_t>& classes, Bytes& to) {
    for (std::size_t i = 0; i < classes.size(); i += 2)
      to.push_back(
          static_cast<std::byte>(classes[i] | (i + 1 < classes.size() ? classes[i + 1] << 4 : 0)));
  }

  /// Stores the elements whole whose first byte has no width or equals the escape.
  void put_escaped(std::span<const std::byte> raw, std::span<std::byte> plane,
                   const codec::ByteClasses& classes, Bytes& escaped, Bytes& to) const {
    const auto escape = static_cast<std::byte>(*choice_.form.escape);
    if (!choice_.tables.front().empty())
      for_missing(0, plane, classes, [&](std::size_t i) { plane[i] = escape; });
    escaped.clear();
    const std::size_t size = choice_.form.size;
    for (const std::byte* at = plane.data(); at != plane.data() + plane.size(); ++at) {
      at = static_cast<const std::byte*>(
          std::memchr(at, std::to_integer<int>(escape),
                      static_cast<std::size_t>(plane.data() + plane.size() - at)));
      if (!at) break;
      append(escaped, raw.subspan(static_cast<std::size_t>(at - plane.data()) * size, size));
    }
    append_varint(to, static_cast<std::int64_t>(escaped.size() / size));
    append(to, escaped);
  }

  void append_plane(std::size_t plane, std::span<const std::byte> bytes,
                    const codec::ByteClasses& classes, std::vector<std::uint16_t>& words,
                    Bytes& to) const {
    Plane kind = bytes.empty() ? Plane::kRaw : choice_.kinds[plane];
    if (kind == Plane::kCoded && (plane > 0 || !choice_.form.escape)) {
      bool missing = false;
      for_missing(plane, bytes, classes, [&](std::size_t) { missing = true; });
      if (missing) kind = Plane::kZstd;
    }
    Bytes packed;
    if (kind == Plane::kZstd) packed = compress_fast(bytes);
    if (kind == Plane::kCoded) encoders_[plane].encode(bytes, classes, words, packed);
    if (kind == Plane::kRaw || packed.size() >= bytes.size()) return append_raw(plane, bytes, to);
    to.push_back(static_cast<std::byte>(kind));
    append_varint(to, static_cast<std::int64_t>(packed.size()));
    append(to, packed);
  }
  void append_raw(std::size_t plane, std::span<const std::byte> bytes, Bytes& to) const {
    to.push_back(static_cast<std::byte>(Plane::kRaw));
    const unsigned mantissa = choice_.form.mantissa;
    if (plane + 1 < choice_.form.size || mantissa == 0) return append(to, bytes);
    for_bit_groups(mantissa, bytes.size(), [&](const BitGroup& group) {
      const std::size_t begin = to.size();
      to.resize(begin + group.bytes());
      group.for_parts([&](std::size_t first, std::size_t size, unsigned shift) {
        add_bits(bytes.data() + first, size, group.bits, group.place, shift, to.data() + begin);
      });
    });
  }

  std::span<const std::byte> raw_;
  PlanesChoice choice_;
  std::vector<codec::ByteEncoder> encoders_;
  std::vector<std::vector<Span>> spans_;  ///< of the tables of planes
};

}  // namespace

struct PlanesWriter::Impl {
  StripeWriter stripes;
};

PlanesWriter::PlanesWriter(std::span<const std::byte> raw, std::size_t size)
    : impl_(std::make_unique<const Impl>(Impl{{raw, choose_planes(raw, size)}})) {}

PlanesWriter::~PlanesWriter() = default;

bool PlanesWriter::pays() const noexcept { return impl_->stripes.choice().share < 0.999; }

void PlanesWriter::write(int threads,
                         const std::function<void(std::span<const std::byte>)>& sink) const {
  const StripeWriter& stripes = impl_->stripes;
  sink(stripes.head());
  ScratchPool pool;
  const auto make = [&](std::size_t i) {
    auto scratch = pool.take();
    stripes.make(i, *scratch);
    return scratch;
  };
  const auto put = [&](std::size_t i, const std::shared_ptr<StripeScratch>& made) {
    sink(made->stripe);
    release_pages(stripes.elements_of(i));
  };
  if (threads < 2 || stripes.stripes() < 3) {
    for (std::size_t i = 0; i < stripes.stripes(); ++i) put(i, make(i));
    return;
  }
  Lookahead<std::shared_ptr<StripeScratch>> ahead(
      threads, std::vector<std::int64_t>(stripes.stripes(), std::int64_t{kPlaneStripe}),
      threads * kAhead, make);
  for (std::size_t i = 0; i < stripes.stripes(); ++i) put(i, ahead.next());
}

std::vector<std::byte> pack_planes(std::span<const std::byte> raw, std::size_t size) {
  Bytes packed;
  PlanesWriter(raw, size).write(1,
                                [&](std::span<const std::byte> piece) { append(packed, piece); });
  return packed;
}

}  // namespace gbcompress
