#include "gbcompress/decode.h"

#include <cstring>
#include <utility>

#include "base/digest.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string digest_of(const TensorBundle& bundle) {
  Sha256 hash;
  const auto add = [&](const std::string& text) {
    // With its end, so that no two lists of words are the same bytes.
    hash.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (const TensorEntry& tensor : bundle.tensors) {
    add(tensor.name);
    add(std::string(dtype_name(tensor.dtype)));
    std::string shape;
    for (const std::int64_t side : tensor.shape) shape += std::to_string(side) + ",";
    add(shape);
    hash.update(tensor.bytes);
  }
  return to_hex(hash.finish());
}

TensorBundle expanded(const ArtifactReader& artifact, const std::string& label) {
  if (!artifact.base().empty())
    throw Error(Errc::kUsage, label +
                                  " is a delta itself and cannot be a base; expand it first and "
                                  "name the model that comes of it");
  TensorBundle bundle;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    auto bytes = std::make_shared<const std::vector<std::byte>>(decode_tensor(artifact, i));
    bundle.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, *bytes});
    bundle.owners.push_back(std::move(bytes));
  }
  sort_by_name(bundle, label);
  return bundle;
}

}  // namespace

BaseModel::BaseModel(TensorBundle tensors)
    : tensors_(std::make_shared<const TensorBundle>(std::move(tensors))),
      digest_(digest_of(*tensors_)) {}

BaseModel BaseModel::open(const std::filesystem::path& path, const ArtifactLimits& limits) {
  if (!std::filesystem::is_directory(path) && ArtifactReader::is_artifact(path))
    return BaseModel(expanded(ArtifactReader::open(path, limits), printable(path.string())));
  return BaseModel(open_tensors(path));
}

const TensorEntry* BaseModel::find(std::string_view name) const noexcept {
  return tensors_->find(name);
}

std::function<std::span<const std::byte>(const ArtifactTensor&)> BaseModel::source_for(
    const ArtifactReader& artifact) const {
  if (artifact.base().empty())
    throw Error(Errc::kUsage, "this file is no delta; expand it without a base");
  if (artifact.base() != digest_)
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
