#pragma once
/// Lossless floats: the bytes of elements by their entropy, exponents apart from mantissas, in
/// stripes that are decoded independently (docs/reference/planes.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/byte_coder.h"

namespace gbcompress {

/// Bytes of elements of a stripe; the last one of a section may have fewer.
inline constexpr std::size_t kPlaneStripe = std::size_t{1} << 19;

/// How a plane is stored.
enum class Plane : unsigned char { kRaw, kZstd, kCoded };

/// The form that all stripes of a section share, without its tables.
struct PlanesForm {
  std::size_t size = 0;   ///< bytes of an element
  unsigned mantissa = 0;  ///< bits of the mantissa that are in the first plane
  unsigned base = 0;      ///< exponent that is 0 in it
  std::optional<std::uint8_t> escape;
  bool zeros_apart = false;  ///< bytes 0 and 1 of the first plane are zeros; the others skip them
  std::size_t run = codec::kLeastRun;  ///< elements of one table
};
inline constexpr unsigned kMostMantissa = 4;
inline constexpr std::size_t kMostRun = std::size_t{1} << 20;
/// The first byte of a form: mantissa bits, this flag where there is an escape, and units of the
/// binary logarithm of run / kLeastRun.
inline constexpr unsigned kEscapeFlag = 8, kRunUnit = 16;
/// The number of tables of the first plane, and a bit of this unit and up for each other plane with
/// a table, and one above them where zeros are apart.
inline constexpr unsigned kLaterTables = 32;
/// First bytes of +0 and -0 where zeros are apart: those up to this one.
inline constexpr unsigned kMostZero = 1;
inline constexpr std::size_t kMostPlanes = 8;

/// Makes sections. [thread-safe]
class PlanesWriter {
 public:
  /// Chooses the form by a sample of the elements.
  /// @param raw   elements of `size` bytes, at least one
  /// @param size  1, 2, 4 or 8
  PlanesWriter(std::span<const std::byte> raw, std::size_t size);
  ~PlanesWriter();

  /// Whether a section is likely to be smaller than the elements.
  bool pays() const noexcept;
  /// Makes the section on that many threads and calls sink(piece) with its bytes in order.
  void write(int threads, const std::function<void(std::span<const std::byte>)>& sink) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// The section on this thread.
std::vector<std::byte> pack_planes(std::span<const std::byte> raw, std::size_t size);

/// Reads stripes of a section. [thread-safe]
class PlanesReader {
 public:
  /// @param raw_bytes  of the elements; the caller has checked it against its limits
  /// @throws Error(kCorrupt, kTruncated)
  PlanesReader(std::span<const std::byte> stored, std::size_t raw_bytes, std::size_t size,
               std::string label);

  std::size_t stripes() const noexcept { return stripes_.size(); }
  /// Bytes of that stripe's elements.
  std::size_t bytes_of(std::size_t stripe) const noexcept;
  /// That stripe in the section.
  std::span<const std::byte> stored(std::size_t stripe) const noexcept { return stripes_[stripe]; }
  /// @param raw      bytes_of(stripe)
  /// @param scratch  at least bytes_of(stripe) bytes of memory for the planes
  /// @throws Error(kCorrupt, kTruncated)
  void read(std::size_t stripe, std::span<std::byte> raw, std::span<std::byte> scratch) const;

 private:
  void read_form(ByteReader& in);
  std::size_t tables_of(std::size_t plane) const noexcept {
    return first_table_[plane + 1] - first_table_[plane];
  }
  void read_runs(ByteReader& in, std::span<std::uint8_t> runs) const;
  void read_plane(ByteReader& in, std::size_t plane, const codec::ByteClasses& classes,
                  std::span<std::byte> to) const;

  PlanesForm form_;
  codec::ByteDecoder decoder_;  ///< with the tables of all planes
  /// Of each plane, and one past the last table.
  std::array<std::size_t, kMostPlanes + 1> first_table_{};
  std::vector<std::span<const std::byte>> stripes_;
  std::size_t raw_bytes_;
  std::string label_;
};

/// @param raw_bytes  size of the elements that were packed
/// @throws Error(kCorrupt, kTruncated)
std::vector<std::byte> unpack_planes(std::span<const std::byte> stored, std::size_t raw_bytes,
                                     std::size_t size, const std::string& label);

}  // namespace gbcompress
