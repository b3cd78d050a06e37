#include "gbcompress/decode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "artifact/base_digest.h"
#include "artifact/base_range.h"
#include "artifact/chain.h"
#include "format/folder/components.h"
#include "format/folder/left_out.h"
#include "format/folder/weight_files.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

std::string digest_of(const TensorBundle& bundle) {
  BaseDigest digest;
  for (const TensorEntry& tensor : bundle.tensors)
    digest.add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  return digest.finish();
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

bool ArtifactReader::is_artifact(const fs::path& path) {
  return sniff(path) == FileKind::kArtifact;
}

fs::path artifact_in(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::vector<std::string> found = artifacts_in(path);
  const std::string label = printable(path.string());
  if (found.size() == 1) return path / found.front();
  if (!found.empty())
    throw Error(Errc::kUsage, label + " holds several .gbz files; name one of them");
  std::vector<std::string> within;
  for (const fs::path& each : component_folders(path)) within.push_back(each.generic_string());
  throw Error(Errc::kNotFound,
              label + " is a folder that holds no .gbz file" +
                  (within.empty() ? ""
                                  : "; its subfolders hold models: " + names_text(within) +
                                        "; name one of them"));
}

fs::path model_in(const fs::path& path) {
  std::error_code ignored;
  const bool packed =
      fs::is_directory(path, ignored) && !holds_weights(path) && !artifacts_in(path).empty();
  return packed ? artifact_in(path) : path;
}

BaseModel::BaseModel(TensorBundle tensors) : BaseModel(std::move(tensors), std::string()) {}

BaseModel::BaseModel(TensorBundle tensors, std::string digest)
    : tensors_(std::make_shared<const TensorBundle>(std::move(tensors))),
      digest_(digest.empty() ? digest_of(*tensors_) : std::move(digest)) {}

BaseModel BaseModel::open(const fs::path& path, const ArtifactLimits& limits) {
  const fs::path file = model_in(path);
  std::error_code ignored;
  if (fs::is_directory(file, ignored) || !ArtifactReader::is_artifact(file))
    return BaseModel(open_tensors(file));
  return expanded(ArtifactReader::open(file, limits), folder_of(file), limits).model();
}

std::vector<BaseModel> BaseModel::open_for(const ArtifactReader& delta,
                                           std::span<const fs::path> paths,
                                           const ArtifactLimits& limits) {
  std::error_code ignored;
  std::vector<BaseModel> models;
  for (const fs::path& path : paths) {
    const std::vector<std::string> found =
        fs::is_directory(path, ignored) ? artifacts_in(path) : std::vector<std::string>();
    const bool one_model =
        found.empty() || (found.size() == 1 && !holds_weights(path) &&
                          !ArtifactReader::open(path / found[0], limits).is_delta());
    if (!delta.is_delta() || one_model) {
      models.push_back(open(path, limits));
      continue;
    }
    for (BaseModel& model : bases_in_folder(delta, path, limits))
      models.push_back(std::move(model));
  }
  return models;
}

std::vector<BaseModel> BaseModel::beside(const ArtifactReader& delta,
                                         const ArtifactLimits& limits) {
  if (delta.path().empty())
    throw Error(Errc::kNotFound, "a delta that is no file has no others beside it");
  return bases_in_folder(delta, folder_of(delta.path()), limits, /*stated=*/true);
}

const TensorEntry* BaseModel::find(std::string_view name) const noexcept {
  return tensors_->find(name);
}

BaseSource base_source(const ArtifactReader& artifact, std::span<const BaseModel> models) {
  std::vector<BaseModel> bases;
  for (const std::string& digest : artifact.bases()) {
    const auto found = std::ranges::find(models, digest, &BaseModel::digest);
    if (found == models.end())
      throw Error(Errc::kUsage,
                  models.size() == 1 && artifact.bases().size() == 1
                      ? "this is another base than the one that the file was made with: " +
                            models[0].digest() + " is not " + digest
                      : "the file is the change since " + std::to_string(artifact.bases().size()) +
                            " models, and none of those given has the digest " + digest +
                            " of one of them; name that one, too");
    bases.push_back(*found);
  }
  return [bases = std::move(bases)](const BaseRange& range) {
    return bytes_of(range, bases.at(range.base).find(range.name));
  };
}

}  // namespace gbcompress
