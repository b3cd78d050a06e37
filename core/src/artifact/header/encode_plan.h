#pragma once
/// Plans as headers have them (docs/reference/artifact-gnets.md, "Plans"); plan_fields.h reads
/// them.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "gbcompress/gnet.h"

namespace gbcompress {

/// @param shape  of the tensor
nlohmann::json encode_plan(const GNetPlan& plan, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
