#pragma once
/// Tensors of files.

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "artifact/sections/elements.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace gbcompress::testing {

/// @param name  of a tensor of float32
inline std::vector<float> decoded(const std::filesystem::path& file, const std::string& name) {
  const ArtifactReader artifact = ArtifactReader::open(file);
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    if (artifact.tensors()[i].name != name) continue;
    const auto bytes = decode_tensor(artifact, i);
    std::vector<float> values(bytes.size() / sizeof(float));
    floats_of(bytes, DType::kF32, values);
    return values;
  }
  throw std::runtime_error("there is no " + name);
}

}  // namespace gbcompress::testing
