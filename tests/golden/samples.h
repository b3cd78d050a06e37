#pragma once
/// Artifacts with every feature of the format, made of counter-based random numbers.

#include <cstddef>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace gbcompress::samples {

/// A small artifact of random tensors, specifications, codings, dtypes, plain and tied entries.
ArtifactWriter random_artifact(std::uint64_t seed);

/// Rows beyond 1,024 columns, and with the profile lanes exact floats of more bytes than a chunk
/// has, 2^18.
ArtifactWriter wide_artifact(CodecProfile profile);

struct Named {
  std::string name;
  ArtifactWriter writer;
};
/// The files of tests/golden/v2.
std::vector<Named> golden();

/// Sample specifications have made-up revisions, which no layer type has: their tiles are placed
/// all the same.
inline DecodeOptions place_all() {
  return {.builder = [](const ArtifactTensor&) { return TileBuilder(); }};
}

/// What `expand` is to write: a safetensors file of all tensors.
std::vector<std::byte> expanded(const ArtifactReader& artifact);

}  // namespace gbcompress::samples
