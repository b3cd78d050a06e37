#pragma once
/// Tensors of one file in another, as they are coded.

#include <map>
#include <span>
#include <string>

#include "base/internal.h"
#include "gbcompress/artifact.h"

namespace GBC_INTERNAL gbcompress {

/// Values of tensors, which become short floats of so many mantissa bits, or a constant.
struct Replacements {
  std::map<std::string, std::span<const float>> values = {};  ///< by name, one number an element
  int mantissa_bits = 0;
};

/// Adds all tensors of a file; integers are not chosen anew. A writer that gets tensors of profile
/// `lanes` has to have that profile.
/// @param replaced  instead of the file's values, unless they cannot be short floats
/// @throws Error(kUnsupported) naming a tensor that g-nets or a base make; as ArtifactWriter
void add_copied(ArtifactWriter& writer, const ArtifactReader& reader, const Replacements& replaced);

/// The file with some tensors replaced.
/// @throws as add_copied()
std::vector<std::byte> with_replaced(const ArtifactReader& reader, const Replacements& replaced);

}  // namespace gbcompress
