#include "artifact/sections/planes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "artifact/sections/bit_groups.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/varint.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

[[noreturn]] void refuse(const std::string& label, const char* why) {
  throw Error(Errc::kCorrupt, label + " has " + why);
}

bool is_zero(std::byte first) { return std::to_integer<unsigned>(first) <= kMostZero; }

/// Elements of planes.
/// @tparam kZeros  whether zeros may be apart
/// @param size    bytes of an element, at most those of T
/// @param planes  the first plane first
template <bool kZeros, typename T>
inline void merge_in(const PlanesForm& form, std::size_t size, const std::byte* planes,
                     std::size_t count, std::byte* raw) {
  const auto last = static_cast<unsigned>(8 * size - 1);
  const T base = static_cast<T>(static_cast<T>(form.base) << (last - 7));
  const T all = static_cast<T>(~T{} >> (8 * (sizeof(T) - size)));
  const unsigned mantissa = form.mantissa;  // of its own: stores of bytes may change the form's
  const bool zeros_apart = kZeros && form.zeros_apart;
  std::size_t place = 0;  // in the planes but the first
  for (std::size_t i = 0; i < count; ++i) {
    T bits = std::to_integer<T>(planes[i]);
    if (!zeros_apart || !is_zero(planes[i])) {  // a zero's byte is its sign
      for (std::size_t plane = 1; plane < size; ++plane)
        bits = static_cast<T>(bits << (8 % (8 * sizeof(T))) |
                              std::to_integer<T>(planes[plane * count + (kZeros ? place : i)]));
      ++place;
      bits = static_cast<T>(((bits >> mantissa) + base) & all);
    }
    bits = static_cast<T>(bits >> 1 | (bits << last & all));
    std::memcpy(raw + i * size, &bits, size);
  }
}

#ifndef GBC_FREESTANDING
template <typename T>
void merge_as(const PlanesForm& form, const std::byte* planes, std::size_t count, std::byte* raw) {
  if (form.zeros_apart) return merge_in<true, T>(form, sizeof(T), planes, count, raw);
  merge_in<false, T>(form, sizeof(T), planes, count, raw);
}
#endif

void merge(const PlanesForm& form, const std::byte* planes, std::size_t count, std::byte* raw) {
#ifdef GBC_FREESTANDING  // one loop for elements of all sizes is less code
  merge_in<true, std::uint64_t>(form, form.size, planes, count, raw);
#else
  if (form.size == 1) return merge_as<std::uint8_t>(form, planes, count, raw);
  if (form.size == 2) return merge_as<std::uint16_t>(form, planes, count, raw);
  if (form.size == 4) return merge_as<std::uint32_t>(form, planes, count, raw);
  merge_as<std::uint64_t>(form, planes, count, raw);
#endif
}

/// Bits above `mantissa` of bytes.
void read_bits(ByteReader& in, unsigned mantissa, std::span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
  for_bit_groups(mantissa, to.size(), [&](const BitGroup& group) {
    const std::byte* const from = in.take(group.bytes()).data();
    group.for_parts([&](std::size_t first, std::size_t size, unsigned shift) {
      add_bits(from, size, group.bits, shift, group.place, to.data() + first);
    });
  });
}

const std::byte* find(const std::byte* at, const std::byte* end, std::byte value) {
#ifdef GBC_FREESTANDING  // which has no memchr
  while (at != end && *at != value) ++at;
  return at;
#else
  const auto count = static_cast<std::size_t>(end - at);
  const void* const found = std::memchr(at, std::to_integer<int>(value), count);
  return found ? static_cast<const std::byte*>(found) : end;
#endif
}

/// Copies the escaped elements to the places where the first plane has the escape.
void put_escapes(std::span<const std::byte> escaped, std::size_t size, std::uint8_t escape,
                 std::span<const std::byte> plane, std::byte* raw, const std::string& label) {
  const std::byte* const end = plane.data() + plane.size();
  const std::byte* next = escaped.data();
  const std::byte* const last = next + escaped.size();
  const std::byte* at = plane.data();
  for (; (at = find(at, end, std::byte{escape})) != end && next != last; ++at, next += size)
    std::memcpy(raw + static_cast<std::size_t>(at - plane.data()) * size, next, size);
  if (at != end || next != last) refuse(label, "other escapes than escaped elements");
}

}  // namespace

PlanesReader::PlanesReader(std::span<const std::byte> stored, std::size_t raw_bytes,
                           std::size_t size, std::string label)
    : raw_bytes_(raw_bytes), label_(std::move(label)) {
  if (!std::has_single_bit(size) || size > kMostPlanes || raw_bytes % size != 0)
    refuse(label_, "planes of a malformed form");
  ByteReader in(stored, label_);
  form_.size = size;
  read_form(in);
  for (std::size_t at = 0; at < raw_bytes; at += kPlaneStripe)
    stripes_.push_back(
        in.take(raw_bytes - at > kPlaneStripe ? in.read<std::uint32_t>() : in.remaining()));
  if (in.remaining() > 0) refuse(label_, "bytes after its planes");
}

void PlanesReader::read_form(ByteReader& in) {
  const auto head = in.read<std::uint8_t>();
  form_.mantissa = head % kEscapeFlag;
  form_.run = codec::kLeastRun << head / kRunUnit;
  form_.base = in.read<std::uint8_t>();
  if ((head & kEscapeFlag) != 0) form_.escape = in.read<std::uint8_t>();
  const auto tables = static_cast<std::uint64_t>(read_varint(in, label_));
  form_.zeros_apart = (tables / kLaterTables >> (form_.size - 1)) != 0;
  if (form_.mantissa > (form_.size > 1 ? kMostMantissa : 0) || form_.run > kMostRun ||
      tables % kLaterTables > codec::kMostByteTables || tables / kLaterTables >> form_.size != 0 ||
      (form_.zeros_apart && (form_.size == 1 || form_.escape.value_or(255) <= kMostZero)))
    refuse(label_, "planes of a malformed form");
  for (std::size_t plane = 0; plane < form_.size; ++plane) {
    const std::uint64_t count =
        plane == 0 ? tables % kLaterTables : (tables / kLaterTables) >> (plane - 1) & 1;
    for (std::uint64_t i = 0; i < count; ++i) decoder_.add(codec::read_widths(in, label_));
    first_table_[plane + 1] = decoder_.tables();
  }
}

std::size_t PlanesReader::bytes_of(std::size_t stripe) const noexcept {
  return std::min(kPlaneStripe, raw_bytes_ - stripe * kPlaneStripe);
}

void PlanesReader::read_runs(ByteReader& in, std::span<std::uint8_t> runs) const {
  const auto nibbles = in.take((runs.size() + 1) / 2);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i] = std::to_integer<std::uint8_t>(nibbles[i / 2] >> (4 * (i % 2)) & std::byte{15});
    if (runs[i] >= tables_of(0)) refuse(label_, "a run of no table");
  }
}

void PlanesReader::read_plane(ByteReader& in, std::size_t plane, const codec::ByteClasses& classes,
                              std::span<std::byte> to) const {
  const auto kind = in.read<unsigned char>();
  if (kind == static_cast<unsigned char>(Plane::kRaw)) {
    if (plane + 1 == form_.size && form_.mantissa > 0) return read_bits(in, form_.mantissa, to);
    const auto content = in.take(to.size());
    std::copy(content.begin(), content.end(), to.begin());
    return;
  }
  const auto content = in.take(static_cast<std::uint64_t>(read_varint(in, label_)));
  if (kind == static_cast<unsigned char>(Plane::kZstd)) {
    const Bytes plain =
        unpack(content, Packing::kZstd, static_cast<std::int64_t>(to.size()), 1, label_);
    std::copy(plain.begin(), plain.end(), to.begin());
    return;
  }
  if (kind != static_cast<unsigned char>(Plane::kCoded) || tables_of(plane) == 0)
    refuse(label_, "a plane of an unknown kind");
  decoder_.decode(content, plane == 0 ? classes : codec::ByteClasses{.first = first_table_[plane]},
                  to);
}

void PlanesReader::read(std::size_t stripe, std::span<std::byte> raw,
                        std::span<std::byte> scratch) const {
  const std::size_t count = raw.size() / form_.size;
  ByteReader in(stripes_[stripe], label_);
  std::vector<std::uint8_t> runs(tables_of(0) < 2 ? 0 : (count + form_.run - 1) / form_.run);
  read_runs(in, runs);
  const codec::ByteClasses classes{runs, form_.run};
  std::span<const std::byte> escaped;
  if (form_.escape) {
    const auto elements = static_cast<std::uint64_t>(read_varint(in, label_));
    if (elements > count) refuse(label_, "other escapes than escaped elements");
    escaped = in.take(elements * form_.size);
  }
  read_plane(in, 0, classes, scratch.first(count));
  std::size_t some = count;
  if (form_.zeros_apart)
    for (const std::byte first : scratch.first(count)) some -= is_zero(first) ? 1 : 0;
  for (std::size_t plane = 1; plane < form_.size; ++plane)
    read_plane(in, plane, classes, scratch.subspan(plane * count, some));
  if (in.remaining() > 0) refuse(label_, "bytes after its planes");
  merge(form_, scratch.data(), count, raw.data());
  if (!form_.escape) return;
  put_escapes(escaped, form_.size, *form_.escape, scratch.first(count), raw.data(), label_);
}

Bytes unpack_planes(std::span<const std::byte> stored, std::size_t raw_bytes, std::size_t size,
                    const std::string& label) {
  const PlanesReader reader(stored, raw_bytes, size, label);
  Bytes raw(raw_bytes), scratch(std::min(raw_bytes, kPlaneStripe));
  for (std::size_t i = 0; i < reader.stripes(); ++i)
    reader.read(i, std::span(raw).subspan(i * kPlaneStripe, reader.bytes_of(i)), scratch);
  return raw;
}

}  // namespace gbcompress
