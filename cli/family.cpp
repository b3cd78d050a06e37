#include "family.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"
#include "model_options.h"

namespace gbcompress::cli {

FamilyBases Family::bases_of(const std::string& input) const {
  FamilyBases bases;
  if (models_.empty() || !component_folders(input).empty()) return bases;
  try {
    const BaseChoice chosen = choose_bases(open_tensors(input, model_options(arguments_)), models_);
    for (const std::size_t place : chosen.places) bases.paths.push_back(paths_[place]);
    bases.saved_bytes = static_cast<std::int64_t>(chosen.saved_bytes);
  } catch (const Error&) {
    // told where that input has its turn
  }
  return bases;
}

bool Family::holds_blocks(const std::string& input) const {
  if (!component_folders(input).empty()) return false;
  try {
    const TensorBundle model = open_tensors(input, model_options(arguments_));
    return std::ranges::any_of(model.tensors,
                               [](const TensorEntry& tensor) { return tensor.block_type != 0; });
  } catch (const Error&) {
    return false;  // told where that input has its turn
  }
}

void Family::add(const std::string& input, const std::string& artifact) {
  if (!component_folders(input).empty()) return;
  const std::filesystem::path file = artifact_in(artifact);
  const auto written = ArtifactReader::open(file, {}, DigestCheck::kNever);
  const std::string digest = written.digest();
  if (digest.empty()) return;
  std::size_t links = 0;
  for (const EarlierModel& each : models_)
    if (std::ranges::find(written.bases(), each.model.digest()) != written.bases().end())
      links = std::max(links, each.links + 1);
  // The input is mapped, where the file would be expanded into memory. --base may read other
  // tensors of it than --keep and --part have chosen, or refuse it.
  std::optional<BaseModel> model;
  try {
    model = BaseModel::open(input);
  } catch (const Error&) {
  }
  const bool same = model && model->digest() == digest;
  models_.push_back({same ? *std::move(model) : BaseModel::open(file), links});
  paths_.push_back(same ? input : file.string());
}

}  // namespace gbcompress::cli
