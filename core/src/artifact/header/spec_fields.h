#pragma once
/// Specifications in headers (docs/reference/artifact-gnets.md, "Specifications").

#include <cstdint>
#include <vector>

#include "artifact/header/sizes.h"
#include "gbcompress/gnet.h"

namespace gbcompress {

/// The layer type of a specification that names none.
inline const char* usual_type(const std::vector<std::int64_t>& shape) {
  return shape.size() > 2 ? "conv" : "linear";
}

/// A specification as it is written: what is left out follows from the tensor.
struct SpecFields {
  GNetSpec spec;
  bool usual_type = true, usual_tile = true, usual_codes = true;
};
SpecFields read_spec(CborReader& in);
/// Fills in what was left out, and checks everything.
/// @param shape  of the tensor
/// @throws Error(kShapeMismatch, kLimit) as validate()
GNetSpec complete_spec(SpecFields fields, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
