#include "artifact/chain_folder.h"

#include <algorithm>
#include <utility>

#include "base/folder.h"
#include "format/folder/components.h"
#include "format/folder/weight_files.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;

namespace {

/// Of a file whose header cannot be read.
std::string damage_of(const fs::path& path, const ArtifactLimits& limits) {
  try {
    ArtifactReader::open(path, limits);  // its digest says whether it is damaged
  } catch (const Error& error) {
    return error.what();
  }
  return printable(path.string()) + " was replaced meanwhile";
}

/// Calls read() of a folder that others may be without.
template <typename Read>
void try_reading(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

}  // namespace

LinkFolder::LinkFolder(fs::path folder, const ArtifactLimits& limits, bool stated)
    : folder_(std::move(folder)), limits_(limits), stated_(stated) {
  for (const std::string& name : names_in(folder_)) {
    if (name.ends_with(".gbz"))
      add(folder_ / name);
    else
      others_.push_back(name);
  }
}

void LinkFolder::add(const fs::path& path) {
  Link link{.path = path, .neighbor = has_neighbors_};
  try {
    // Headers alone: a folder may hold many more files than a chain goes through.
    const auto file = ArtifactReader::open(link.path, limits_, DigestCheck::kNever);
    link.digest = file.digest();
    link.base = file.base();
  } catch (const Error&) {
    if (link.neighbor) return;
    note_damage(link, damage_of(link.path, limits_));
  }
  by_digest_.emplace(link.digest, links_.size());
  links_.push_back(std::move(link));
}

void LinkFolder::add_neighbors() {
  has_neighbors_ = true;
  const auto add_files = [&](const fs::path& folder) {
    try_reading([&] {
      for (const std::string& name : artifacts_in(folder)) add(folder / name);
    });
  };
  const auto add_subfolders = [&](const fs::path& parent) {
    std::vector<std::string> names;
    try_reading([&] { names = names_in(parent); });
    for (const std::string& name : names) {
      std::error_code ignored;
      const fs::path folder = parent / name;
      if (fs::is_directory(fs::symlink_status(folder, ignored)) &&
          !fs::equivalent(folder, folder_, ignored))
        add_files(folder);
    }
  };
  const bool of_one_model = links_.size() < 2;
  add_subfolders(folder_);
  if (!of_one_model) return;
  add_files(folder_ / "..");
  add_subfolders(folder_ / "..");
}

void LinkFolder::note_damage(Link& link, const std::string& what) {
  link.damaged = true;
  damaged_.push_back(what);
}

std::vector<const LinkFolder::Link*> LinkFolder::stating(const std::string& digest,
                                                         bool deltas) const {
  std::vector<const Link*> found;
  const auto [first, end] = by_digest_.equal_range(digest);
  for (auto it = first; it != end; ++it) {
    const Link& link = links_[it->second];
    if (!link.damaged && link.base.empty() != deltas) found.push_back(&link);
  }
  return found;
}

/// Breadth first. @return a whole file that states a reached digest; null: there is none
const LinkFolder::Link* LinkFolder::search(const std::string& needed, Reached& reached) const {
  std::vector<std::string> digests{needed};
  reached = {{needed, nullptr}};
  for (std::size_t next = 0; next < digests.size(); ++next) {
    const std::string digest = digests[next];
    if (const auto whole = stating(digest, false); !whole.empty()) return whole.front();
    for (const Link* link : stating(digest, true))
      if (reached.emplace(link->base, link).second) digests.push_back(link->base);
  }
  return nullptr;
}

/// The last link of the way where no whole file states a digest: to a model that states none, or
/// to where a file is missing.
const LinkFolder::Link* LinkFolder::search_others(const ArtifactReader& delta,
                                                  const Reached& reached, ChainWalk& found) const {
  std::set<std::string> digests;
  const Link* loop = nullptr;
  for (const auto& [digest, by] : reached) {
    digests.insert(digest);
    if (stating(digest, true).empty()) found.missing = digest;
    if (by) loop = by;
  }
  found.root = find_whole(digests);
  if (found.root) return reached.at(found.root->digest());
  if (stated_ && found.missing.empty()) found.missing = delta.base();
  if (!found.missing.empty()) return reached.at(found.missing);
  throw Error(Errc::kCorrupt, printable((loop ? loop->path : delta.path()).string()) +
                                  " is needed to expand itself: its chain of deltas is a loop; get "
                                  "the file again");
}

/// The links that lead from the base of a delta to what has the digest that `last` needs, the base
/// first. @param last  null: the base itself
std::vector<const LinkFolder::Link*> LinkFolder::way_to(const Link* last,
                                                        const Reached& reached) const {
  std::vector<const Link*> way;
  for (; last; last = reached.at(last->digest)) way.push_back(last);
  std::ranges::reverse(way);
  return way;
}

/// Nothing for a file that is damaged or was replaced since.
std::optional<ArtifactReader> LinkFolder::checked(const Link& link) {
  Link& own = links_[static_cast<std::size_t>(&link - links_.data())];
  try {
    ArtifactReader file = ArtifactReader::open(link.path, limits_);
    if (file.digest() == link.digest && file.base() == link.base) return file;
    note_damage(own, printable(link.path.string()) + " was replaced meanwhile");
  } catch (const Error& error) {
    note_damage(own, error.what());
  }
  return {};
}

/// Among files that are no deltas and state no digest.
std::optional<BaseModel> LinkFolder::find_whole(const std::set<std::string>& digests) const {
  if (stated_) return {};
  for (const Link& link : links_) {
    if (link.damaged || link.neighbor || !link.base.empty() || !link.digest.empty()) continue;
    BaseModel model = BaseModel::open(link.path, limits_);
    if (digests.contains(model.digest())) return model;
  }
  for (const std::string& name : others_) {
    const fs::path path = folder_ / name;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0 ||
        sniff(path) != FileKind::kSafetensors)
      continue;
    BaseModel model(open_tensors(path));
    if (digests.contains(model.digest())) return model;
  }
  if (!holds_weights(folder_)) return {};
  BaseModel model(open_tensors(folder_));
  return digests.contains(model.digest()) ? std::optional(std::move(model)) : std::nullopt;
}

ChainWalk LinkFolder::walk(const ArtifactReader& delta) {
  for (;;) {  // once more without each file that turns out to be damaged
    Reached reached;
    ChainWalk found;
    const Link* last = nullptr;
    if (const Link* whole = search(delta.base(), reached)) {
      found.whole = checked(*whole);
      if (!found.whole) continue;
      last = reached.at(whole->digest);
    } else if (!has_neighbors_) {
      add_neighbors();
      continue;
    } else {
      last = search_others(delta, reached, found);
    }
    bool damaged = false;
    for (const Link* link : way_to(last, reached)) {
      std::optional<ArtifactReader> file = checked(*link);
      damaged = damaged || !file;
      if (file) found.links.push_back(*std::move(file));
    }
    if (!damaged) return found;
  }
}

void LinkFolder::missing(const ArtifactReader& needed_by, const std::string& digest) {
  // What states another digest than it did before it was damaged.
  for (const Link& link : links_)
    if (!link.damaged && !link.neighbor) checked(link);
  std::string text = printable(needed_by.path().string()) + " needs the model with the digest " +
                     digest + ", and no file in " + printable(folder_.string()) + " has it";
  for (const std::string& damaged : damaged_) text += "; " + damaged;
  throw Error(Errc::kNotFound, text + "; put the missing link there");
}

}  // namespace gbcompress
