#include "artifact/sections/planes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "artifact/sections/packing.h"
#include "artifact/sections/varint.h"
#include "codec/byte_coder.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

/// How a plane is stored.
enum class Plane : unsigned char { kRaw, kZstd, kCoded };

/// What a coded plane must save at least, of its size: mantissas are not worth the time.
constexpr double kSaved = 0.01;
/// Bytes of a plane that tell whether zstd finds more than single bytes' statistics do.
constexpr std::size_t kSample = std::size_t{1} << 18;

/// The plane of the bytes that begin at bit 8 * plane, once the sign was turned to the end.
template <typename T>
void split(std::span<const std::byte> raw, std::size_t plane, std::span<std::byte> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T bits;
    std::memcpy(&bits, raw.data() + i * sizeof bits, sizeof bits);
    to[i] = static_cast<std::byte>(std::rotl(bits, 1) >> (8 * plane));
  }
}

template <typename T>
void merge(const std::vector<Bytes>& planes, std::span<std::byte> raw) {
  for (std::size_t i = 0; i < raw.size() / sizeof(T); ++i) {
    T bits = 0;
    for (std::size_t plane = 0; plane < sizeof bits; ++plane)
      bits = static_cast<T>(bits | static_cast<T>(std::to_integer<T>(planes[plane][i]))
                                       << (8 * plane));
    bits = std::rotr(bits, 1);
    std::memcpy(raw.data() + i * sizeof bits, &bits, sizeof bits);
  }
}

void append_plane(Bytes& to, std::span<const std::byte> plane) {
  const auto size = static_cast<double>(plane.size());
  const auto sample = plane.first(std::min(kSample, plane.size()));
  const double coded = codec::expected_size(plane);
  const Bytes zstd = compress_fast(sample);
  const double share = static_cast<double>(zstd.size()) / static_cast<double>(sample.size());
  Plane kind = Plane::kRaw;
  Bytes packed;
  if (share < 0.97 * coded / size && share < 1 - kSaved) {
    packed = sample.size() == plane.size() ? zstd : compress_fast(plane);
    kind = Plane::kZstd;
  } else if (coded < (1 - kSaved) * size) {
    packed = codec::encode_bytes(plane);
    kind = Plane::kCoded;
  }
  if (kind != Plane::kRaw && packed.size() >= plane.size()) kind = Plane::kRaw;
  to.push_back(static_cast<std::byte>(kind));
  if (kind != Plane::kRaw) append_varint(to, static_cast<std::int64_t>(packed.size()));
  const auto content = kind == Plane::kRaw ? plane : std::span<const std::byte>(packed);
  to.insert(to.end(), content.begin(), content.end());
}

Bytes read_plane(ByteReader& in, std::size_t size, const std::string& label) {
  const auto kind = in.read<unsigned char>();
  if (kind > static_cast<unsigned char>(Plane::kCoded))
    throw Error(Errc::kCorrupt, label + " has a plane of an unknown kind");
  if (kind == static_cast<unsigned char>(Plane::kRaw)) {
    const auto content = in.take(size);
    return {content.begin(), content.end()};
  }
  const auto content = in.take(static_cast<std::uint64_t>(read_varint(in, label)));
  if (kind == static_cast<unsigned char>(Plane::kZstd))
    return unpack(content, Packing::kZstd, static_cast<std::int64_t>(size), 1, label);
  Bytes plane(size);
  codec::decode_bytes(content, plane);
  return plane;
}

}  // namespace

Bytes pack_planes(std::span<const std::byte> raw, std::size_t size) {
  Bytes packed, plane(raw.size() / size);
  packed.reserve(raw.size());
  for (std::size_t p = size; p-- > 0;) {
    if (size == 2)
      split<std::uint16_t>(raw, p, plane);
    else if (size == 4)
      split<std::uint32_t>(raw, p, plane);
    else
      split<std::uint64_t>(raw, p, plane);
    append_plane(packed, plane);
  }
  return packed;
}

Bytes unpack_planes(std::span<const std::byte> stored, std::size_t raw_bytes, std::size_t size,
                    const std::string& label) {
  if ((size != 2 && size != 4 && size != 8) || raw_bytes % size != 0)
    throw Error(Errc::kCorrupt, label + " has planes of elements that have none");
  ByteReader in(stored, label);
  std::vector<Bytes> planes(size);
  for (std::size_t p = size; p-- > 0;) planes[p] = read_plane(in, raw_bytes / size, label);
  if (in.remaining() > 0) throw Error(Errc::kCorrupt, label + " has bytes after its last plane");
  Bytes raw(raw_bytes);
  if (size == 2)
    merge<std::uint16_t>(planes, raw);
  else if (size == 4)
    merge<std::uint32_t>(planes, raw);
  else
    merge<std::uint64_t>(planes, raw);
  return raw;
}

}  // namespace gbcompress
