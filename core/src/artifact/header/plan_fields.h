#pragma once
/// Plans in headers (docs/reference/artifact-gnets.md, "Plans").

#include <cstdint>
#include <vector>

#include "artifact/header/sizes.h"
#include "gbcompress/gnet.h"

namespace gbcompress {

/// The layer type of a plan that names none.
inline const char* usual_type(const std::vector<std::int64_t>& shape) {
  return shape.size() > 2 ? "conv" : "linear";
}

/// A plan as it is written: what is left out follows from the tensor.
struct PlanFields {
  GNetPlan plan;
  bool usual_type = true, usual_tile = true, usual_codes = true;
};
PlanFields read_plan(CborReader& in);
/// Fills in what was left out, and checks everything.
/// @param shape  of the tensor
/// @throws Error(kShapeMismatch, kLimit) as validate()
GNetPlan complete_plan(PlanFields fields, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
