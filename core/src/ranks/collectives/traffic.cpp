#include "gbcompress/traffic.h"

#include <algorithm>
#include <numeric>

namespace gbcompress {

std::string_view collective_name(Collective kind) noexcept {
  static constexpr std::array<std::string_view, kCollectives> kNames = {
      "all_reduce", "reduce", "broadcast", "all_gather", "barrier", "send", "receive"};
  const auto i = static_cast<std::size_t>(kind);
  return i < kNames.size() ? kNames[i] : "unknown";
}

std::int64_t Traffic::bytes() const noexcept {
  std::int64_t sum = 0;
  for (const Count& count : kinds) sum += count.bytes;
  return sum;
}

std::int64_t Traffic::calls() const noexcept {
  std::int64_t sum = 0;
  for (const Count& count : kinds) sum += count.calls;
  return sum;
}

Traffic operator-(const Traffic& later, const Traffic& earlier) {
  Traffic result;
  for (std::size_t i = 0; i < result.kinds.size(); ++i)
    result.kinds[i] = {later.kinds[i].calls - earlier.kinds[i].calls,
                       later.kinds[i].bytes - earlier.kinds[i].bytes};
  return result;
}

namespace wire {
namespace {

// gloo/allreduce.h: the longest segment that travels alone round the ring.
constexpr std::int64_t kMaxSegment = 1024 * 1024;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

/// Bytes of the chunk that ends up reduced on `rank` in the first half of the ring.
std::int64_t ring_chunk(std::int64_t bytes, int rank, int world, std::int64_t element) {
  const std::int64_t most = element * std::max<std::int64_t>(1, kMaxSegment / element);
  const std::int64_t segments =
      round_up(std::max((bytes + most - 1) / most, std::int64_t{2} * world), world);
  const std::int64_t segment = round_up((bytes + segments - 1) / segments, element);
  const std::int64_t chunk = segment * (segments / world);
  return std::clamp(bytes - chunk * rank, std::int64_t{0}, chunk);
}

/// How many ranks receive from this one in the tree of a broadcast.
int tree_children(int from, int rank, int world) {
  const unsigned place = static_cast<unsigned>((rank + world - from) % world);
  int children = 0;
  for (unsigned bit = 1; bit < static_cast<unsigned>(world); bit <<= 1)
    if (place < bit && (place | bit) < static_cast<unsigned>(world)) ++children;
  return children;
}

}  // namespace

std::int64_t all_reduce(std::int64_t bytes, int rank, int world, std::int64_t element) {
  if (world == 1 || bytes == 0) return 0;
  // Each half of the ring passes on every chunk but one.
  return 2 * bytes - ring_chunk(bytes, rank, world, element) -
         ring_chunk(bytes, (rank + world - 1) % world, world, element);
}

std::int64_t reduce_scatter(std::span<const std::int64_t> pieces, int rank) {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0}) -
         pieces[static_cast<std::size_t>(rank)];
}

std::int64_t broadcast(std::int64_t bytes, int from, int rank, int world) {
  return bytes * tree_children(from, rank, world);
}

std::int64_t all_gather(std::span<const std::int64_t> pieces, int rank) {
  std::int64_t sum = 0;
  const int world = static_cast<int>(pieces.size());
  for (int from = 0; from < world; ++from)
    sum += broadcast(pieces[static_cast<std::size_t>(from)], from, rank, world);
  return sum;
}

}  // namespace wire
}  // namespace gbcompress
