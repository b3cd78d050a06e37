#include "artifact/chain_folder.h"

#include <algorithm>
#include <set>
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

fs::path ChainNode::path() const {
  return file ? file->path() : root ? root->tensors().files.front() : fs::path();
}

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
    link.bases = file.bases();
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

std::vector<const LinkFolder::Link*> LinkFolder::stating(const std::string& digest) const {
  std::vector<const Link*> found;
  const auto [first, end] = by_digest_.equal_range(digest);
  for (auto it = first; it != end; ++it)
    if (const Link& link = links_[it->second]; !link.damaged && !digest.empty())
      found.push_back(&link);
  return found;
}

/// What is needed, and what the deltas among the files that state it need.
LinkFolder::Ways LinkFolder::reached(const std::vector<std::string>& needed) const {
  Ways ways;
  std::vector<std::string> left = needed;
  while (!left.empty()) {
    const std::string digest = std::move(left.back());
    left.pop_back();
    if (!ways.emplace(digest, std::nullopt).second) continue;
    for (const Link* link : stating(digest))
      left.insert(left.end(), link->bases.begin(), link->bases.end());
  }
  return ways;
}

/// The fewest links. A model comes about by a file whose bases do.
void LinkFolder::find_ways(Ways& ways) const {
  const auto links_to = [&](const Link& link) -> std::optional<std::size_t> {
    std::size_t links = 0;
    for (const std::string& base : link.bases) {
      const auto& way = ways.at(base);
      if (!way) return {};
      links = std::max(links, way->links + 1);
    }
    return links;
  };
  for (bool found = true; found;) {
    found = false;
    for (auto& [digest, way] : ways)
      for (const Link* link : stating(digest))
        if (const auto links = links_to(*link); links && (!way || *links < way->links)) {
          way = Way{link, *links};
          found = true;
        }
  }
}

/// Goes from what is needed to what no file states.
void LinkFolder::find_missing(const std::vector<std::string>& needed, const Ways& ways,
                              const std::string& label, ChainWalk& found) const {
  std::set<std::string> seen;
  const std::vector<std::string>* from = &needed;
  std::string loop = label;
  for (;;) {
    const auto at =
        std::ranges::find_if(*from, [&](const std::string& digest) { return !ways.at(digest); });
    const std::vector<const Link*> links = stating(*at);
    found.missing = *at;
    if (links.empty()) return;
    if (!seen.insert(*at).second) break;
    loop = printable(links.front()->path.string());
    found.needed_by = links.front()->path;
    from = &links.front()->bases;
  }
  if (stated_) return;
  throw Error(
      Errc::kCorrupt,
      loop + " is needed to expand itself: its chain of deltas is a loop; get the file again");
}

/// Nothing for a file that is damaged or was replaced since.
std::optional<ArtifactReader> LinkFolder::checked(const Link& link) {
  Link& own = links_[static_cast<std::size_t>(&link - links_.data())];
  try {
    ArtifactReader file = ArtifactReader::open(link.path, limits_);
    if (file.digest() == link.digest && file.bases() == link.bases) return file;
    note_damage(own, printable(link.path.string()) + " was replaced meanwhile");
  } catch (const Error& error) {
    note_damage(own, error.what());
  }
  return {};
}

/// Among files that are no deltas and state no digest: models that are needed and do not come
/// about.
std::map<std::string, BaseModel> LinkFolder::find_roots(const Ways& ways) const {
  std::map<std::string, BaseModel> roots;
  if (stated_) return roots;
  const auto all_found = [&] {
    return std::ranges::all_of(
        ways, [&](const auto& way) { return way.second || roots.contains(way.first); });
  };
  const auto look_at = [&](BaseModel model) {
    const auto way = ways.find(model.digest());
    if (way != ways.end() && !way->second) roots.emplace(way->first, std::move(model));
  };
  for (const Link& link : links_)
    if (!all_found() && !link.damaged && !link.neighbor && link.bases.empty() &&
        link.digest.empty())
      look_at(BaseModel::open(link.path, limits_));
  for (const std::string& name : others_) {
    const fs::path path = folder_ / name;
    std::error_code ignored;
    if (all_found() || !fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0 ||
        sniff(path) != FileKind::kSafetensors)
      continue;
    look_at(BaseModel(open_tensors(path)));
  }
  if (!all_found() && holds_weights(folder_)) look_at(BaseModel(open_tensors(folder_)));
  return roots;
}

/// Opens the files of the ways that are needed. @return nothing where one turns out to be damaged
std::optional<ChainWalk> LinkFolder::walk_by(const std::vector<std::string>& needed,
                                             const Ways& ways,
                                             const std::map<std::string, BaseModel>& roots) {
  // Where a model does not come about, what is there of it.
  const auto link_for = [&](const std::string& digest) -> const Link* {
    if (const auto& way = ways.at(digest)) return way->link;
    const std::vector<const Link*> stated = stating(digest);
    return stated.empty() ? nullptr : stated.front();
  };
  std::vector<std::pair<std::size_t, std::string>> order;  // links, digest
  std::map<std::string, std::size_t> places;
  std::vector<std::string> left = needed;
  while (!left.empty()) {
    const std::string digest = std::move(left.back());
    left.pop_back();
    if (!places.emplace(digest, 0).second) continue;
    const auto& way = ways.at(digest);
    order.emplace_back(way ? way->links : 0, digest);
    if (const Link* link = link_for(digest))
      left.insert(left.end(), link->bases.begin(), link->bases.end());
  }
  std::ranges::sort(order);
  ChainWalk walk;
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i].second] = i;
  for (const auto& [links, digest] : order) {
    ChainNode& node = walk.nodes.emplace_back(ChainNode{.digest = digest});
    const auto root = roots.find(digest);
    if (root != roots.end()) node.root = root->second;
    const Link* link = link_for(digest);
    if (!link) continue;
    node.file = checked(*link);
    if (!node.file) return {};
    for (const std::string& base : link->bases) node.bases.push_back(places.at(base));
  }
  for (const std::string& digest : needed) walk.bases.push_back(places.at(digest));
  return walk;
}

ChainWalk LinkFolder::walk(const ArtifactReader& delta) {
  const std::vector<std::string>& bases = delta.bases();
  const std::string label = printable(delta.path().string());
  for (;;) {  // once more without each file that turns out to be damaged
    Ways ways = reached(bases);
    find_ways(ways);
    const auto comes_about = [&](const std::string& digest) { return ways.at(digest).has_value(); };
    std::map<std::string, BaseModel> roots;
    ChainWalk found;
    if (!std::ranges::all_of(bases, comes_about)) {
      if (!has_neighbors_) {
        add_neighbors();
        continue;
      }
      roots = find_roots(ways);
      for (const auto& [digest, root] : roots) ways.at(digest) = Way{};
      find_ways(ways);
      if (!std::ranges::all_of(bases, comes_about)) find_missing(bases, ways, label, found);
    }
    if (auto walk = walk_by(bases, ways, roots)) {
      walk->missing = found.missing;
      walk->needed_by = found.needed_by;
      return *std::move(walk);
    }
  }
}

void LinkFolder::missing(const std::string& needed_by, const std::string& digest) {
  // What states another digest than it did before it was damaged.
  for (const Link& link : links_)
    if (!link.damaged && !link.neighbor) checked(link);
  std::string text = needed_by + " needs the model with the digest " + digest +
                     ", and no file in " + printable(folder_.string()) + " has it";
  for (const std::string& damaged : damaged_) text += "; " + damaged;
  throw Error(Errc::kNotFound, text + "; put the missing link there");
}

}  // namespace gbcompress
