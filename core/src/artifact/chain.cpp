#include "artifact/chain.h"

#include <algorithm>
#include <set>
#include <utility>

#include "artifact/chain_folder.h"
#include "artifact/header/header.h"
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

/// Names of the tensors of each base that some files refer to.
using Needed = std::set<std::string, std::less<>>;

/// @param base  the place of the base among those of the delta
void add_needed(const ArtifactReader& delta, std::size_t base, Needed& names) {
  for (const ArtifactTensor& tensor : delta.tensors()) {
    if (has_source(tensor) && tensor.base == base) names.insert(base_form(tensor).name);
    for (const TensorPiece& piece : tensor.pieces)
      if (piece.source == TensorPiece::Source::kBase && piece.base == base)
        names.insert(piece.name.empty() ? tensor.name : piece.name);
  }
}

/// @param needed  other tensors are left out; null: none
OwnModel decoded(const ArtifactReader& artifact, const Needed* needed = nullptr) {
  OwnModel model;
  model.files.push_back(artifact.path());
  model.file_bytes = artifact.file_bytes();
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    if (needed && !needed->contains(tensor.name)) continue;
    auto own = std::make_shared<std::vector<std::byte>>(decode_tensor(artifact, i));
    model.tensors.emplace(
        tensor.name, OwnTensor{{tensor.name, tensor.dtype, tensor.shape, *own}, std::move(own)});
  }
  return model;
}

const std::string& digest_of(OwnModel& model) {
  if (model.digest.empty()) model.digest = model.model().digest();
  return model.digest;
}

ChainWalk complete_walk(LinkFolder& files, const ArtifactReader& delta) {
  ChainWalk found = files.walk(delta);
  if (!found.missing.empty())
    files.missing(printable((found.needed_by.empty() ? delta.path() : found.needed_by).string()),
                  found.missing);
  return found;
}

/// Makes the models of a walk, each once. A link whose model nothing but the next one needs goes
/// through both at once.
class WalkedModels {
 public:
  /// @param wanted     places of the models that are wanted, whose digests are compared
  /// @param each       goes through one link at a time and compares all digests: names the first
  ///                   one that is wrong
  WalkedModels(const ChainWalk& walk, const std::vector<std::size_t>& wanted, bool each)
      : nodes_(walk.nodes), each_(each), wanted_(nodes_.size()), models_(nodes_.size()) {
    for (const std::size_t place : wanted) wanted_[place] = true;
    users_.resize(nodes_.size());
    needed_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (std::size_t n = 0; n < nodes_[i].bases.size(); ++n) {
        users_[nodes_[i].bases[n]].push_back(i);
        add_needed(*nodes_[i].file, n, needed_[nodes_[i].bases[n]]);
      }
    left_ = users_;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!passes_on(i)) make(i);
  }

  OwnModel take(std::size_t place) { return std::move(models_[place]); }

 private:
  /// Whether the model is a delta that needs one base's tensors of the same names.
  bool is_plain_link(std::size_t i) const {
    const ChainNode& node = nodes_[i];
    return node.bases.size() == 1 &&
           std::ranges::all_of(node.file->tensors(), [](const ArtifactTensor& tensor) {
             return tensor.kind != TensorKind::kPieces && tensor.kind != TensorKind::kBlocks;
           });
  }
  /// Whether it is made along with the one model that needs it.
  bool passes_on(std::size_t i) const {
    return !each_ && !wanted_[i] && users_[i].size() == 1 && nodes_[i].file &&
           !nodes_[i].bases.empty() && is_plain_link(users_[i][0]);
  }

  OwnModel of(std::size_t i) {
    const ChainNode& node = nodes_[i];
    if (node.root) return OwnModel(*node.root);
    if (node.bases.empty()) return decoded(*node.file, wanted_[i] || each_ ? nullptr : &needed_[i]);
    std::vector<const ArtifactReader*> links{&*node.file};
    const ChainNode* first = &node;
    while (is_plain_link(i) && passes_on(first->bases[0])) {
      i = first->bases[0];
      first = &nodes_[i];
      links.push_back(&*first->file);
    }
    std::ranges::reverse(links);
    std::vector<OwnModel> bases;
    for (const std::size_t base : first->bases) {
      auto& left = left_[base];
      left.pop_back();
      bases.push_back(left.empty() && !wanted_[base] ? std::move(models_[base]) : models_[base]);
    }
    return passed_through(std::move(bases), links);
  }

  void make(std::size_t i) {
    OwnModel model = of(i);
    if ((each_ || wanted_[i]) && digest_of(model) != nodes_[i].digest) disown(nodes_[i].path());
    if (!wanted_[i] && !nodes_[i].root)
      std::erase_if(model.tensors,
                    [&](const auto& tensor) { return !needed_[i].contains(tensor.first); });
    models_[i] = std::move(model);
  }

  const std::vector<ChainNode>& nodes_;
  const bool each_;
  std::vector<char> wanted_;
  std::vector<std::vector<std::size_t>> users_, left_;  ///< of each model: those that need it
  std::vector<Needed> needed_;
  std::vector<OwnModel> models_;
};

/// @param wanted  places of models; what they have to be is compared
std::vector<OwnModel> made(const ChainWalk& walk, const std::vector<std::size_t>& wanted) {
  const auto take = [&](bool each) {
    WalkedModels models(walk, wanted, each);
    std::vector<OwnModel> taken;
    for (const std::size_t place : wanted) taken.push_back(models.take(place));
    return taken;
  };
  try {
    return take(false);  // the last digests vouch for all before them
  } catch (const Error& error) {
    if (error.code() == Errc::kInterrupted) throw;
  }
  return take(true);
}

/// Without what the delta does not refer to.
BaseModel base_model(OwnModel model, const ArtifactReader& delta, std::size_t base) {
  const std::string digest = digest_of(model);
  Needed needed;
  add_needed(delta, base, needed);
  std::erase_if(model.tensors, [&](const auto& tensor) { return !needed.contains(tensor.first); });
  model.digest = digest;
  return model.model();
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

std::vector<BaseModel> bases_in_folder(const ArtifactReader& delta, const fs::path& folder,
                                       const ArtifactLimits& limits, bool stated) {
  LinkFolder files(folder, limits, stated);
  const ChainWalk walk = complete_walk(files, delta);
  std::vector<OwnModel> models = made(walk, walk.bases);
  std::vector<BaseModel> bases;
  for (std::size_t i = 0; i < models.size(); ++i)
    bases.push_back(base_model(std::move(models[i]), delta, i));
  return bases;
}

OwnModel expanded(const ArtifactReader& artifact, const fs::path& folder,
                  const ArtifactLimits& limits) {
  if (!artifact.is_delta()) return decoded(artifact);
  if (artifact.digest().empty()) {
    std::vector<OwnModel> bases;
    for (const BaseModel& base : bases_in_folder(artifact, folder, limits))
      bases.emplace_back(base);
    return passed_through(std::move(bases), {&artifact});
  }
  LinkFolder files(folder, limits);
  ChainWalk walk = complete_walk(files, artifact);
  walk.nodes.push_back({artifact.digest(), artifact, {}, walk.bases});
  return std::move(made(walk, {walk.nodes.size() - 1})[0]);
}

std::vector<ChainLink> chain_of(const ArtifactReader& delta, const fs::path& folder,
                                const ArtifactLimits& limits) {
  std::vector<ChainLink> chain;
  if (!delta.is_delta()) return chain;
  LinkFolder files(folder, limits);
  const ChainWalk found = files.walk(delta);
  std::vector<std::size_t> places;
  const auto add = [&](const std::vector<std::size_t>& bases) {
    for (const std::size_t base : bases)
      if (std::ranges::find(places, base) == places.end()) places.push_back(base);
  };
  add(found.bases);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ChainNode& node = found.nodes[places[i]];
    add(node.bases);
    chain.push_back({node.path(), node.digest,
                     node.file   ? node.file->file_bytes()
                     : node.root ? node.root->tensors().file_bytes
                                 : 0});
  }
  return chain;
}

BaseModel BaseModel::on(const ArtifactReader& delta, std::span<const BaseModel> before) {
  base_source(delta, before);  // checks the digests
  std::vector<OwnModel> bases;
  for (const std::string& digest : delta.bases())
    bases.emplace_back(*std::ranges::find(before, digest, &BaseModel::digest));
  BaseModel model = passed_through(std::move(bases), {&delta}).model();
  if (!delta.digest().empty() && model.digest() != delta.digest()) disown(delta.path());
  return model;
}

}  // namespace gbcompress
