#pragma once
/// Tensors in pieces: work for threads whose sums do not depend on how many there are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress {

/// Numbers that one call of a kernel takes.
inline constexpr std::int64_t kPiece = 1 << 14;

/// Numbers that have the same step.
struct Segment {
  std::int64_t first, count;
  std::size_t group;
};

/// `groups` equal parts of n numbers, in pieces. @throws Error(kShapeMismatch) where they are none
inline std::vector<Segment> segments_of(std::int64_t n, std::size_t groups) {
  if (groups == 0 || n % static_cast<std::int64_t>(groups) != 0)
    throw Error(Errc::kShapeMismatch, "the steps do not fit the tensor");
  const std::int64_t length = n / static_cast<std::int64_t>(groups);
  std::vector<Segment> result;
  for (std::size_t g = 0; g < groups; ++g)
    for (std::int64_t at = 0; at < length; at += kPiece)
      result.push_back(
          {static_cast<std::int64_t>(g) * length + at, std::min(kPiece, length - at), g});
  return result;
}

}  // namespace gbcompress
