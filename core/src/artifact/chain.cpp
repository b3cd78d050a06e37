#include "artifact/chain.h"

#include <algorithm>
#include <utility>

#include "artifact/chain_folder.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void disown(const fs::path& link) {
  throw Error(Errc::kCorrupt, (link.empty() ? "the file" : printable(link.string())) +
                                  " does not expand to the tensors whose digest it states; get the "
                                  "file again");
}

OwnModel decoded(const ArtifactReader& artifact) {
  OwnModel model;
  model.files.push_back(artifact.path());
  model.file_bytes = artifact.file_bytes();
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    auto own = std::make_shared<std::vector<std::byte>>(decode_tensor(artifact, i));
    model.tensors.emplace(
        tensor.name, OwnTensor{{tensor.name, tensor.dtype, tensor.shape, *own}, std::move(own)});
  }
  return model;
}

OwnModel start_of(const ChainWalk& walk) {
  return walk.whole ? decoded(*walk.whole) : OwnModel(*walk.root);
}

fs::path file_of(const ChainWalk& walk) {
  return walk.whole ? walk.whole->path() : walk.root->tensors().files.front();
}

const std::string& digest_of(OwnModel& model) {
  if (model.digest.empty()) model.digest = model.model().digest();
  return model.digest;
}

ChainWalk complete_walk(LinkFolder& files, const ArtifactReader& delta) {
  ChainWalk found = files.walk(delta);
  if (!found.whole && !found.root)
    files.missing(found.links.empty() ? delta : found.links.back(), found.missing);
  std::ranges::reverse(found.links);
  return found;
}

/// Names the first link whose tensors are not those that it states.
/// @param digest  of what the last one is to expand to; "": unknown
OwnModel one_by_one(const ChainWalk& walk, const std::vector<const ArtifactReader*>& links,
                    const std::string& digest) {
  OwnModel model = start_of(walk);
  if (digest_of(model) != (links.empty() ? digest : links.front()->base())) disown(file_of(walk));
  for (std::size_t i = 0; i < links.size(); ++i) {
    model = passed_through(std::move(model), {links[i]});
    const std::string& wanted = i + 1 < links.size() ? links[i + 1]->base() : digest;
    if (!wanted.empty() && digest_of(model) != wanted) disown(links[i]->path());
  }
  return model;
}

/// @param digest  as one_by_one()
OwnModel checked(const ChainWalk& walk, const std::vector<const ArtifactReader*>& links,
                 const std::string& digest) {
  try {
    OwnModel model = passed_through(start_of(walk), links);
    // The last digest vouches for all before it.
    if (digest_of(model) == digest) return model;
  } catch (const Error&) {
    // What follows names the first link that is wrong.
  }
  return one_by_one(walk, links, digest);
}

std::vector<const ArtifactReader*> pointers(const ChainWalk& walk) {
  std::vector<const ArtifactReader*> links;
  for (const ArtifactReader& link : walk.links) links.push_back(&link);
  return links;
}

}  // namespace

OwnModel::OwnModel(const BaseModel& model)
    : owners(model.tensors().owners),
      files(model.tensors().files),
      file_bytes(model.tensors().file_bytes),
      digest(model.digest()) {
  for (const TensorEntry& tensor : model.tensors().tensors) tensors[tensor.name] = {tensor, {}};
}

BaseModel OwnModel::model() const { return BaseModel(bundle(), digest); }

TensorBundle OwnModel::bundle() const {
  TensorBundle bundle;
  bundle.owners = owners;
  bundle.files = files;
  bundle.file_bytes = file_bytes;
  for (const auto& [name, tensor] : tensors) {
    bundle.tensors.push_back(tensor.entry);
    if (tensor.own) bundle.owners.push_back(tensor.own);
  }
  return bundle;
}

BaseModel base_in_folder(const ArtifactReader& delta, const fs::path& folder,
                         const ArtifactLimits& limits, bool stated) {
  LinkFolder files(folder, limits, stated);
  const ChainWalk walk = complete_walk(files, delta);
  if (walk.links.empty() && walk.root) return *walk.root;
  return checked(walk, pointers(walk), delta.base()).model();
}

OwnModel expanded(const ArtifactReader& artifact, const fs::path& folder,
                  const ArtifactLimits& limits) {
  if (artifact.base().empty()) return decoded(artifact);
  if (artifact.digest().empty()) {
    OwnModel base(base_in_folder(artifact, folder, limits));
    return passed_through(std::move(base), {&artifact});
  }
  LinkFolder files(folder, limits);
  const ChainWalk walk = complete_walk(files, artifact);
  std::vector<const ArtifactReader*> links = pointers(walk);
  links.push_back(&artifact);
  return checked(walk, links, artifact.digest());
}

std::vector<ChainLink> chain_of(const ArtifactReader& delta, const fs::path& folder,
                                const ArtifactLimits& limits) {
  std::vector<ChainLink> chain;
  if (delta.base().empty()) return chain;
  LinkFolder files(folder, limits);
  const ChainWalk found = files.walk(delta);
  std::string needed = delta.base();
  for (const ArtifactReader& link : found.links) {
    chain.push_back({link.path(), needed, link.file_bytes()});
    needed = link.base();
  }
  chain.push_back({{}, needed, 0});
  if (!found.whole && !found.root) return chain;
  chain.back().file = file_of(found);
  chain.back().bytes = found.whole ? found.whole->file_bytes() : found.root->tensors().file_bytes;
  return chain;
}

BaseModel BaseModel::on(const ArtifactReader& delta, const BaseModel& before) {
  before.source_for(delta);  // checks the digest
  BaseModel model = passed_through(OwnModel(before), {&delta}).model();
  if (!delta.digest().empty() && model.digest() != delta.digest()) disown(delta.path());
  return model;
}

}  // namespace gbcompress
