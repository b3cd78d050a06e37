#pragma once
/// Comparison of specifications.

#include "gbcompress/gnet.h"

namespace gbcompress {

/// Whether specifications differ in nothing but the deviation that the weights began with.
inline bool same_but_scale(GNetSpec a, const GNetSpec& b) {
  a.output_scale = b.output_scale;
  return a == b;
}

}  // namespace gbcompress
