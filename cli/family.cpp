#include "family.h"

#include <algorithm>
#include <utility>

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

std::vector<BaseModel> Family::models_of(const std::vector<std::string>& paths) const {
  std::vector<BaseModel> models;
  for (const std::string& path : paths) {
    const auto place = std::ranges::find(paths_, path) - paths_.begin();
    models.push_back(models_.at(static_cast<std::size_t>(place)).model);
  }
  return models;
}

void Family::add(const std::string& input, TensorBundle tensors, std::string digest,
                 std::span<const BaseModel> bases) {
  if (digest.empty()) return;
  std::size_t links = 0;
  for (const EarlierModel& each : models_)
    if (std::ranges::find(bases, each.model.digest(), &BaseModel::digest) != bases.end())
      links = std::max(links, each.links + 1);
  models_.push_back({BaseModel(std::move(tensors), std::move(digest)), links});
  paths_.push_back(input);
}

}  // namespace gbcompress::cli
