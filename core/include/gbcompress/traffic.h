#pragma once
/// Bytes that ranks put on the wire, by the algorithms in use. No LibTorch.
///
/// Counted is what one rank sends of the caller's data. Not counted: Gloo's header of each message,
/// TCP and IP headers, acknowledgements and heartbeats; together they are under 1 % for buffers
/// above 1 MiB (docs/explanation/ranks.md has the measurement). B bytes among W ranks:
///
/// | call | one rank sends | all ranks together |
/// |---|---|---|
/// | all_reduce | 2 B - two ring chunks: 2 B (W-1)/W | 2 B (W-1) |
/// | reduce_scatter | B - its own piece | B (W-1) |
/// | broadcast | B for each child in the binomial tree | B (W-1) |
/// | all_gather of pieces | each piece for each child in its owner's tree | B (W-1) |
/// | barrier | 0 | 0 |
/// | send | B | B |
/// | receive | 0 | 0 |

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduce,  ///< to one owner or scattered over several
  kBroadcast,
  kAllGather,
  kBarrier,
  kSend,  ///< this and the next are calls of two ranks
  kReceive,
};
inline constexpr int kCollectives = 7;
std::string_view collective_name(Collective kind) noexcept;  ///< "all_reduce", ...

/// What one rank has done so far; the difference of two readings is what happened between them.
struct Traffic {
  struct Count {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;  ///< sent by this rank
    bool operator==(const Count&) const = default;
  };
  std::array<Count, kCollectives> kinds{};

  const Count& operator[](Collective kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  std::int64_t bytes() const noexcept;  ///< over all kinds
  std::int64_t calls() const noexcept;
  bool operator==(const Traffic&) const = default;
};
Traffic operator-(const Traffic& later, const Traffic& earlier);

/// The formulas. Ranks count from 0; sizes are bytes; 0 <= rank < world.
namespace wire {
/// @param bytes  a multiple of the element's size
/// @param element  bytes of one element
std::int64_t all_reduce(std::int64_t bytes, int rank, int world, std::int64_t element = 4);
/// @param pieces  bytes that each rank ends up with, by rank; their number is the world
std::int64_t reduce_scatter(std::span<const std::int64_t> pieces, int rank);
std::int64_t broadcast(std::int64_t bytes, int from, int rank, int world);
/// @param pieces  bytes that each rank contributes, by rank
std::int64_t all_gather(std::span<const std::int64_t> pieces, int rank);
}  // namespace wire

}  // namespace gbcompress
