#pragma once
/// Artifacts with every feature of the format, made of counter-based random numbers.

#include <cstddef>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress::samples {

/// A small artifact of random tensors, plans, codings, dtypes, plain and tied entries.
ArtifactWriter random_artifact(std::uint64_t seed);

struct Named {
  std::string name;
  ArtifactWriter writer;
};
/// The files of tests/golden/v2.
std::vector<Named> golden();

/// What `expand` is to write: a safetensors file of all tensors.
std::vector<std::byte> expanded(const ArtifactReader& artifact);

}  // namespace gbcompress::samples
