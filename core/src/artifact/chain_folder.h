#pragma once
/// The files of a folder by the digests of their tensors, and what leads from a delta to a whole
/// model among them. Where that does not suffice, `.gbz` files of its subfolders, too; of a folder
/// with one `.gbz`, which is a model's, those beside the folder and in the folders beside it.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gbcompress/decode.h"

namespace gbcompress {

/// What leads from a delta back to a whole model.
struct ChainWalk {
  std::vector<ArtifactReader> links;    ///< deltas; the one that the delta is based on first
  std::optional<ArtifactReader> whole;  ///< a file that states the digest that the last one needs
  std::optional<BaseModel> root;        ///< of other files; neither: no file has it
  std::string missing;                  ///< the digest that no file has
};

class LinkFolder {
 public:
  /// @param stated  files that state no digest, whose tensors would have to be read, do not count
  LinkFolder(std::filesystem::path folder, const ArtifactLimits& limits, bool stated = false);

  /// The way of the fewest links; the digests of its files are checked, and those of no others. The
  /// delta itself and copies of it lead nowhere.
  /// @throws Error(kCorrupt) where nothing but a loop is found
  ChainWalk walk(const ArtifactReader& delta);
  [[noreturn]] void missing(const ArtifactReader& needed_by, const std::string& digest);

 private:
  /// What a header states.
  struct Link {
    std::filesystem::path path;
    std::string digest, base;
    bool damaged = false;
    bool neighbor = false;  ///< in another folder: it counts by the digest that it states
  };
  /// Each digest that leads back to the delta's base, and the link that needs it: null for the
  /// base itself.
  using Reached = std::map<std::string, const Link*>;

  void add(const std::filesystem::path& path);
  void add_neighbors();
  const Link* search(const std::string& needed, Reached& reached) const;
  const Link* search_others(const ArtifactReader& delta, const Reached& reached,
                            ChainWalk& found) const;
  std::vector<const Link*> way_to(const Link* last, const Reached& reached) const;
  std::optional<ArtifactReader> checked(const Link& link);
  std::optional<BaseModel> find_whole(const std::set<std::string>& digests) const;
  void note_damage(Link& link, const std::string& what);
  /// Undamaged ones that state it. @param deltas  those, or whole files
  std::vector<const Link*> stating(const std::string& digest, bool deltas) const;

  const std::filesystem::path folder_;
  const ArtifactLimits limits_;
  const bool stated_;
  bool has_neighbors_ = false;
  std::vector<Link> links_;
  std::multimap<std::string, std::size_t> by_digest_;
  std::vector<std::string> others_, damaged_;
};

}  // namespace gbcompress
