#pragma once
/// Specifications as headers have them (docs/reference/artifact-gnets.md, "Specifications");
/// spec_fields.h reads them.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "gbcompress/gnet.h"

namespace gbcompress {

/// @param shape  of the tensor
nlohmann::json encode_spec(const GNetSpec& spec, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
