#pragma once
/// The integers of a file of profile `lanes`: which stripe holds what, and what it decodes to
/// (docs/reference/lanes.md).

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "artifact/file_digest.h"
#include "artifact/integers/units_room.h"
#include "codec/lanes/decoder.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

/// Where a file's head and stripes lie.
struct LanesBytes {
  std::span<const std::byte> head;
  std::vector<std::span<const std::byte>> stripes;
  const std::byte* end = nullptr;                ///< of what may be read
  std::shared_ptr<FileDigest> digest = nullptr;  ///< keeps up with the stripes that are decoded
};

/// Values of a tensor that one stripe holds: whole blocks, one after another.
struct LanesPart {
  std::uint32_t stripe;
  std::int64_t first_block, blocks;
  std::int64_t first, size;  ///< values
};

class LanesReader {
 public:
  /// @throws Error(kCorrupt) where there are not as many stripes as the tensors' grids need
  LanesReader(const std::vector<ArtifactTensor>& tensors, LanesBytes bytes);

  /// A tensor's integers in the order of integer_grids(). [thread-safe]
  /// @throws Error(kCorrupt, kTruncated)
  void read(std::size_t tensor, std::span<std::int32_t> integers) const;
  /// The parts of a tensor's last grid, in order.
  std::vector<LanesPart> parts(std::size_t tensor) const;
  /// Decodes the stripe of a part where other grids share it. Before offsets() this takes less time
  /// on several threads: those may lie in a stripe that another thread decodes. [thread-safe]
  void prepare(const LanesPart& part) const {
    if (is_shared(part.stripe)) shared_stripe(part.stripe);
  }
  /// The values of a part of that grid times `scale`, or times those of their rows where `rows` is
  /// not empty; of dependent grids half steps times that. [thread-safe]
  /// @param out  as many as the part has
  template <typename Out>
  void read_part(std::size_t tensor, const LanesPart& part, float scale,
                 std::span<const float> rows, Out* out) const;
  /// The integers of the grid before that one: offsets of rows. [thread-safe]
  std::vector<std::int32_t> offsets(std::size_t tensor) const;
#ifndef GBC_FREESTANDING  // libgbz reads no slices of many rows
  /// What `make` gives for a tensor, a value for each row. It is kept, so that a tensor that is
  /// read again, or in slices, does not decode it again. [thread-safe]
  std::shared_ptr<const std::vector<float>> row_scales(
      std::size_t tensor, const std::function<std::vector<float>()>& make) const;
#endif
  /// Whether a stripe holds values of several grids: its parts are best read one after another.
  bool is_shared(std::size_t stripe) const;
  /// The head, and the stripes that hold the tensor's integers.
  std::vector<std::span<const std::byte>> bytes_of(std::size_t tensor) const;
  /// Bits that each tensor's integers take: of stripes an even share for each integer, of the head
  /// one for each line and column.
  std::vector<double> tensor_bits() const;

 private:
  struct Grid {
    IntegerGrid form;
    std::size_t tensor;
    std::int64_t first;                  ///< of the tensor's integers
    std::vector<std::uint32_t> stripes;  ///< of its blocks
  };
  struct Heads {
    std::vector<codec::lanes::GridHead> grids;
    codec::lanes::Entries entries;
  };
  using Units = std::shared_ptr<const float>;

  /// A stripe that grids share, decoded once for all who ask meanwhile.
  struct Shared {
    std::size_t stripe;
    std::once_flag decoded;
    Units units;
    explicit Shared(std::size_t index) : stripe(index) {}
  };

  const Heads& heads() const;
  /// Calls decode(piece, cursor) for the pieces of a stripe, in order.
  template <typename Decode>
  void for_stripe(std::size_t stripe, const Decode& decode) const;
  Units shared_stripe(std::size_t stripe) const;
  Units decode_shared(std::size_t stripe) const;
  void copy_blocks(std::size_t grid, std::span<std::int32_t> integers) const;
  std::int64_t place_in(std::size_t stripe, std::size_t grid, std::int64_t block) const;

  LanesBytes bytes_;
  std::vector<Grid> grids_;
  std::vector<std::size_t> first_grids_;  ///< of each tensor, and one more
  std::vector<std::vector<codec::lanes::Piece>> pieces_;
  mutable std::once_flag parsed_;
  mutable std::optional<Heads> heads_;
  mutable std::mutex mutex_;
  /// 4 MiB each: small tensors are read one after another.
  static constexpr std::size_t kKeptStripes = 4;
  mutable std::array<std::shared_ptr<Shared>, kKeptStripes> recent_;
  mutable std::size_t oldest_ = 0;
  mutable UnitsRoom room_;
#ifndef GBC_FREESTANDING
  /// 16 MiB. The row scales of a model of 7e9 weights take 6 MiB.
  static constexpr std::size_t kMostScales = std::size_t{1} << 22;
  mutable std::map<std::size_t, std::shared_ptr<const std::vector<float>>> scales_;
  mutable std::size_t kept_scales_ = 0;
#endif
};

}  // namespace gbcompress
