#pragma once
/// The options that say which of a file's contents are the model.

#include <filesystem>
#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/artifact.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// --keep, --part.
void add_model_options(boost::program_options::options_description& into);
/// @throws Error(kUsage)
OpenOptions model_options(const Arguments& arguments);
/// What `--draft` selects of a file with layers.
Layer layer_of(const Arguments& arguments);
/// Opens a `.gbz`. @throws Error(kUsage) for a draft that is not there; as ArtifactReader::open()
ArtifactReader open_layer(const std::filesystem::path& file, Layer layer,
                          const ArtifactLimits& limits = {},
                          DigestCheck check = DigestCheck::kAtOnce);
/// What opening a file left out, unless --quiet.
void say_notes(const Arguments& arguments, const std::vector<std::string>& notes);

}  // namespace gbcompress::cli
