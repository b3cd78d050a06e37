#pragma once
/// Comparison of plans.

#include "gbcompress/gnet.h"

namespace gbcompress {

/// Whether plans differ in nothing but the deviation that the weights began with.
inline bool same_but_scale(GNetPlan a, const GNetPlan& b) {
  a.output_scale = b.output_scale;
  return a == b;
}

}  // namespace gbcompress
