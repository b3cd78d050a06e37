#include "gbcompress/decode.h"

#include <cstring>
#include <utility>

#include "artifact/base_digest.h"
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

BaseModel BaseModel::open_for(const ArtifactReader& delta, const fs::path& path,
                              const ArtifactLimits& limits) {
  std::error_code ignored;
  if (delta.base().empty() || !fs::is_directory(path, ignored)) return open(path, limits);
  const std::vector<std::string> found = artifacts_in(path);
  if (found.empty() ||
      (found.size() == 1 && ArtifactReader::open(path / found[0], limits).base().empty() &&
       !holds_weights(path)))
    return open(path, limits);
  return base_in_folder(delta, path, limits);
}

BaseModel BaseModel::beside(const ArtifactReader& delta, const ArtifactLimits& limits) {
  if (delta.path().empty())
    throw Error(Errc::kNotFound, "a delta that is no file has no others beside it");
  return base_in_folder(delta, folder_of(delta.path()), limits, /*stated=*/true);
}

const TensorEntry* BaseModel::find(std::string_view name) const noexcept {
  return tensors_->find(name);
}

std::function<std::span<const std::byte>(const ArtifactTensor&)> BaseModel::source_for(
    const ArtifactReader& artifact) const {
  if (!artifact.base().empty() && artifact.base() != digest_)
    throw Error(Errc::kUsage, "this is another base than the one that the file was made with: " +
                                  digest_ + " is not " + artifact.base());
  return [tensors = tensors_](const ArtifactTensor& tensor) {
    const TensorEntry* found = tensors->find(tensor.name);
    if (!found || found->dtype != tensor.dtype || found->shape != tensor.shape)
      throw Error(Errc::kCorrupt, "the base has no tensor " + printable(tensor.name) +
                                      " of the type and shape that the file says");
    return found->bytes;
  };
}

}  // namespace gbcompress
