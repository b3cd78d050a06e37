#pragma once
/// What `inspect` says of the bases of a file, and of tensors that refer to them.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/base_model.h"

namespace gbcompress::cli {

/// An object for each base: its digest, the file in the chain that has it, how many tensors refer
/// to it, and the bytes of their elements that do.
nlohmann::ordered_json bases_json(const ArtifactReader& artifact,
                                  const std::vector<ChainLink>& chain);
/// "\nbase   DIGEST, 3 tensors, 1,200 bytes of elements" for each one.
std::string bases_text(const ArtifactReader& artifact);

/// The keys `base`, from 0 on, and `pieces` of a tensor that has them.
nlohmann::ordered_json sources_json(const ArtifactTensor& tensor);
/// "base 2", "5 pieces, 3 of them of bases"; "": neither.
std::string sources_text(const ArtifactReader& artifact, const ArtifactTensor& tensor);

}  // namespace gbcompress::cli
