#include "gbcompress/decode.h"

#include <cstring>
#include <utility>

#include "artifact/base_digest.h"
#include "artifact/chain.h"
#include "base/folder.h"
#include "format/model_folder.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

std::string digest_of(const TensorBundle& bundle) {
  BaseDigest digest;
  for (const TensorEntry& tensor : bundle.tensors)
    digest.add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  return digest.finish();
}

std::vector<fs::path> artifacts_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const std::string& name : names_in(folder))
    if (name.ends_with(".gbz")) found.push_back(folder / name);
  return found;
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
  const std::vector<fs::path> found = artifacts_in(path);
  const std::string label = printable(path.string());
  if (found.empty()) throw Error(Errc::kNotFound, label + " is a folder that holds no .gbz file");
  if (found.size() > 1)
    throw Error(Errc::kUsage, label + " holds several .gbz files; name one of them");
  return found.front();
}

BaseModel::BaseModel(TensorBundle tensors) : BaseModel(std::move(tensors), std::string()) {}

BaseModel::BaseModel(TensorBundle tensors, std::string digest)
    : tensors_(std::make_shared<const TensorBundle>(std::move(tensors))),
      digest_(digest.empty() ? digest_of(*tensors_) : std::move(digest)) {}

BaseModel BaseModel::open(const fs::path& path, const ArtifactLimits& limits) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) && (holds_weights(path) || artifacts_in(path).empty()))
    return BaseModel(open_tensors(path));
  const fs::path file = artifact_in(path);
  if (!ArtifactReader::is_artifact(file)) return BaseModel(open_tensors(file));
  return expanded(ArtifactReader::open(file, limits), folder_of(file), limits).model();
}

BaseModel BaseModel::open_for(const ArtifactReader& delta, const fs::path& path,
                              const ArtifactLimits& limits) {
  std::error_code ignored;
  if (delta.base().empty() || !fs::is_directory(path, ignored)) return open(path, limits);
  const std::vector<fs::path> found = artifacts_in(path);
  if (found.empty() ||
      (found.size() == 1 && ArtifactReader::open(found[0], limits).base().empty() &&
       !holds_weights(path)))
    return open(path, limits);
  return base_in_folder(delta, path, limits);
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
