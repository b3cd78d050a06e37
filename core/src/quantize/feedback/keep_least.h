#pragma once
/// The least of a few keys, without branches that depend on them.

#include <cstddef>
#include <cstdint>

namespace gbcompress {

constexpr std::size_t kMostKeys = 128;

/// Leaves the `most` least of the keys, in the order that they have.
/// @param keys  [kMostKeys]: `count` different ones below 2^63; the others are overwritten
/// @return how many are left
std::size_t keep_least(std::int64_t* keys, std::size_t count, std::size_t most);

}  // namespace gbcompress
