#include "family.h"

#include <filesystem>
#include <optional>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"
#include "model_options.h"

namespace gbcompress::cli {

std::string Family::base_of(const std::string& input) const {
  if (models_.empty() || !component_folders(input).empty()) return "";
  try {
    const auto nearest = nearest_model(open_tensors(input, model_options(arguments_)), models_);
    return nearest ? paths_[*nearest] : "";
  } catch (const Error&) {
    return "";  // told where that input has its turn
  }
}

void Family::add(const std::string& input, const std::string& artifact) {
  if (!component_folders(input).empty()) return;
  const std::filesystem::path file = artifact_in(artifact);
  const std::string digest = ArtifactReader::open(file, {}, DigestCheck::kNever).digest();
  if (digest.empty()) return;
  // The input is mapped, where the file would be expanded into memory. --base may read other
  // tensors of it than --keep and --part have chosen, or refuse it.
  std::optional<BaseModel> model;
  try {
    model = BaseModel::open(input);
  } catch (const Error&) {
  }
  const bool same = model && model->digest() == digest;
  models_.push_back(same ? *std::move(model) : BaseModel::open(file));
  paths_.push_back(same ? input : file.string());
}

}  // namespace gbcompress::cli
