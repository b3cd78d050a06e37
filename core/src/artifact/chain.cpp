#include "artifact/chain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "artifact/header/header.h"
#include "base/folder.h"
#include "format/model_folder.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

using Bytes = std::vector<std::byte>;

/// A tensor on its way through a chain. Whoever holds its bytes alone may change them in place.
struct Passing {
  TensorEntry entry;
  std::shared_ptr<Bytes> own;  ///< null: the bytes are a file's
};

/// Tensors by name, as one link after another is applied.
class PassingModel {
 public:
  explicit PassingModel(const BaseModel& start) : owners_(start.tensors().owners) {
    files_ = start.tensors().files;
    for (const TensorEntry& tensor : start.tensors().tensors) tensors_[tensor.name] = {tensor, {}};
  }

  void apply(const ArtifactReader& link) {
    std::map<std::string, Passing, std::less<>> next;
    for (std::size_t i = 0; i < link.tensors().size(); ++i) {
      const ArtifactTensor& tensor = link.tensors()[i];
      if (tensor.kind == TensorKind::kTied) continue;
      Passing made = needs_base(tensor) ? changed(link, i) : whole(tensor, decode_tensor(link, i));
      next.emplace(tensor.name, std::move(made));
    }
    for (const ArtifactTensor& tensor : link.tensors()) {
      if (tensor.kind != TensorKind::kTied) continue;
      Passing made = next.find(tensor.tied_to)->second;
      made.entry.name = tensor.name;
      next.emplace(tensor.name, std::move(made));
    }
    tensors_ = std::move(next);
    files_.push_back(link.path());
  }

  /// The tensors as they are now. No link is applied afterwards.
  TensorBundle bundle() const {
    TensorBundle bundle;
    bundle.owners = owners_;
    bundle.files = files_;
    for (const auto& [name, tensor] : tensors_) {
      bundle.tensors.push_back(tensor.entry);
      if (tensor.own) bundle.owners.push_back(tensor.own);
    }
    return bundle;
  }

 private:
  static Passing whole(const ArtifactTensor& tensor, Bytes bytes) {
    auto own = std::make_shared<Bytes>(std::move(bytes));
    return {{tensor.name, tensor.dtype, tensor.shape, *own}, own};
  }

  /// Of a tensor that the base has.
  Passing changed(const ArtifactReader& link, std::size_t i) {
    const ArtifactTensor& tensor = link.tensors()[i];
    const auto before = tensors_.find(tensor.name);
    if (before == tensors_.end() || before->second.entry.dtype != tensor.dtype ||
        before->second.entry.shape != tensor.shape)
      throw Error(Errc::kCorrupt, "the base has no tensor " + printable(tensor.name) +
                                      " of the type and shape that the file says");
    if (tensor.kind == TensorKind::kQuantized)
      return whole(tensor,
                   decode_tensor(link, i, {.builder = {}, .base = [&](const ArtifactTensor&) {
                                             return before->second.entry.bytes;
                                           }}));
    Passing made = std::move(before->second);
    tensors_.erase(before);
    if (tensor.kind == TensorKind::kBase) return made;
    if (!made.own || made.own.use_count() > 1)
      made = whole(tensor, {made.entry.bytes.begin(), made.entry.bytes.end()});
    apply_change(tensor.dtype, tensor.shape, link.change(i), *made.own);
    return made;
  }

  std::map<std::string, Passing, std::less<>> tensors_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::vector<fs::path> files_;
};

/// Files of a folder by the digests of their tensors.
class LinkFolder {
 public:
  LinkFolder(fs::path folder, const ArtifactLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {
    for (const std::string& name : names_in(folder_)) {
      if (!name.ends_with(".gbz")) {
        others_.push_back(name);
        continue;
      }
      try {
        links_.push_back(ArtifactReader::open(folder_ / name, limits));
      } catch (const Error& error) {
        damaged_.emplace_back(error.what());
      }
    }
    // A whole file ends a chain sooner than a delta of the same tensors.
    std::stable_sort(links_.begin(), links_.end(), [](const auto& a, const auto& b) {
      return a.base().empty() && !b.base().empty();
    });
  }

  /// nullptr: no file states that digest.
  const ArtifactReader* find(const std::string& digest) const {
    for (const ArtifactReader& link : links_)
      if (link.digest() == digest) return &link;
    return nullptr;
  }

  /// Among files that are no deltas and state no digest.
  std::optional<BaseModel> find_whole(const std::string& digest) const {
    for (const ArtifactReader& link : links_) {
      if (!link.base().empty() || !link.digest().empty()) continue;
      BaseModel model = BaseModel::open(link.path(), limits_);
      if (model.digest() == digest) return model;
    }
    for (const std::string& name : others_) {
      const fs::path path = folder_ / name;
      std::error_code ignored;
      if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0 ||
          sniff(path) != FileKind::kSafetensors)
        continue;
      BaseModel model(open_tensors(path));
      if (model.digest() == digest) return model;
    }
    if (!holds_weights(folder_)) return {};
    BaseModel model(open_tensors(folder_));
    return model.digest() == digest ? std::optional(std::move(model)) : std::nullopt;
  }

  [[noreturn]] void missing(const ArtifactReader& needed_by, const std::string& digest) const {
    std::string text = printable(needed_by.path().string()) + " needs the model with the digest " +
                       digest + ", and no file in " + printable(folder_.string()) + " has it";
    for (const std::string& damaged : damaged_) text += "; " + damaged;
    throw Error(Errc::kNotFound, text + "; put the missing link there");
  }

 private:
  const fs::path folder_;
  const ArtifactLimits limits_;
  std::vector<ArtifactReader> links_;
  std::vector<std::string> others_, damaged_;
};

[[noreturn]] void disown(const fs::path& link) {
  throw Error(Errc::kCorrupt, printable(link.string()) +
                                  " does not expand to the tensors whose digest it states; get the "
                                  "file again");
}

/// @param check  each link's tensors against the digest that it states
TensorBundle passed_through(const BaseModel& root, const std::vector<const ArtifactReader*>& links,
                            bool check) {
  PassingModel model(root);
  for (const ArtifactReader* link : links) {
    try {
      model.apply(*link);
    } catch (const Error& error) {
      throw Error(error.code(), printable(link->path().string()) + ": " + error.what());
    }
    if (check && BaseModel(model.bundle()).digest() != link->digest()) disown(link->path());
  }
  return model.bundle();
}

/// What leads from a delta back to a whole model.
struct Walk {
  std::vector<const ArtifactReader*> links;  ///< the one before the delta first
  std::optional<BaseModel> root;             ///< nothing: no file has it
};

Walk walk(const LinkFolder& files, const ArtifactReader& delta, const ArtifactLimits& limits) {
  Walk found;
  std::string needed = delta.base();
  for (;;) {
    const ArtifactReader* link = files.find(needed);
    if (!link) {
      found.root = files.find_whole(needed);
      return found;
    }
    if (link->base().empty()) {
      found.root = BaseModel::open(link->path(), limits);
      return found;
    }
    if (link->identity() == delta.identity() ||
        std::ranges::find(found.links, link) != found.links.end())
      throw Error(Errc::kCorrupt, printable(link->path().string()) +
                                      " is needed to expand itself: its chain of deltas is a "
                                      "loop; get the file again");
    found.links.push_back(link);
    needed = link->base();
  }
}

}  // namespace

BaseModel base_in_folder(const ArtifactReader& delta, const fs::path& folder,
                         const ArtifactLimits& limits) {
  const LinkFolder files(folder, limits);
  Walk found = walk(files, delta, limits);
  const ArtifactReader& last = found.links.empty() ? delta : *found.links.back();
  if (!found.root) files.missing(last, last.base());
  if (found.root->digest() != last.base()) disown(found.root->tensors().files.front());
  std::ranges::reverse(found.links);
  if (found.links.empty()) return *std::move(found.root);
  try {
    BaseModel model(passed_through(*found.root, found.links, false));
    if (model.digest() == delta.base()) return model;
  } catch (const Error&) {
    // What follows names the first link that is wrong.
  }
  return BaseModel(passed_through(*found.root, found.links, true));
}

std::vector<ChainLink> chain_of(const ArtifactReader& delta, const fs::path& folder,
                                const ArtifactLimits& limits) {
  std::vector<ChainLink> chain;
  if (delta.base().empty()) return chain;
  const LinkFolder files(folder, limits);
  const Walk found = walk(files, delta, limits);
  std::string needed = delta.base();
  for (const ArtifactReader* link : found.links) {
    chain.push_back({link->path(), needed, link->file_bytes()});
    needed = link->base();
  }
  chain.push_back({{}, needed, 0});
  if (!found.root) return chain;
  chain.back().file = found.root->tensors().files.front();
  chain.back().bytes = found.root->tensors().file_bytes;
  return chain;
}

BaseModel BaseModel::on(const ArtifactReader& delta, const BaseModel& before) {
  before.source_for(delta);  // checks the digest
  PassingModel model(before);
  model.apply(delta);
  return BaseModel(model.bundle());
}

}  // namespace gbcompress
