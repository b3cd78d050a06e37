#pragma once
/// Sizes to try for the largest quality drop allowed, as ratios of input bytes to output bytes.

#include "search/bracket_search.h"

namespace gbcompress {

inline constexpr double kFirstDropRatio = 40;

/// Halves the ratio from kFirstDropRatio until quality is kept; a value holds if it is. Cheap
/// attempts then cut the bracket on a logarithmic scale.
inline BracketSearch drop_search(bool cheap) {
  return {{.scale = Scale::kLog, .cuts = cheap ? 4 : 0, .stride = 0.5, .strides = 4},
          {.first = kFirstDropRatio}};
}

}  // namespace gbcompress
