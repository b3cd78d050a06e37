#pragma once
/// The files of a folder by the digests of their tensors, and what leads from a delta to a whole
/// model among them. Where that does not suffice, `.gbz` files of its subfolders, too; of a folder
/// with one `.gbz`, which is a model's, those beside the folder and in the folders beside it.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/decode.h"

namespace gbcompress {

/// A model that a delta needs, and the file that has it.
struct ChainNode {
  std::string digest;
  std::optional<ArtifactReader> file = {};  ///< a delta, or a whole one
  std::optional<BaseModel> root = {};       ///< of other files; neither: no file has it
  std::vector<std::size_t> bases = {};      ///< of a delta: their places in ChainWalk::nodes

  std::filesystem::path path() const;  ///< "": no file has it
};
/// What leads from a delta back to whole models.
struct ChainWalk {
  /// Where nothing is missing, each one after its bases. Else those that were found and the
  /// missing ones, without bases.
  std::vector<ChainNode> nodes;
  std::vector<std::size_t> bases;   ///< of the delta: their places
  std::string missing;              ///< a digest that no file has; ""
  std::filesystem::path needed_by;  ///< the file that needs that; "": the delta
};

class LinkFolder {
 public:
  /// @param stated  files that state no digest, whose tensors would have to be read, do not count
  LinkFolder(std::filesystem::path folder, const ArtifactLimits& limits, bool stated = false);

  /// The ways of the fewest links; the digests of their files are checked, and those of no others.
  /// The delta itself and copies of it lead nowhere.
  /// @throws Error(kCorrupt) where nothing but a loop is found
  ChainWalk walk(const ArtifactReader& delta);
  [[noreturn]] void missing(const std::string& needed_by, const std::string& digest);

 private:
  /// What a header states.
  struct Link {
    std::filesystem::path path;
    std::string digest;
    std::vector<std::string> bases;
    bool damaged = false;
    bool neighbor = false;  ///< in another folder: it counts by the digest that it states
  };
  /// How a model comes about: from a link, or null for a root, by so many links.
  struct Way {
    const Link* link = nullptr;
    std::size_t links = 0;
  };
  /// Digests that are needed, and how each comes about; null: not as far as is known.
  using Ways = std::map<std::string, std::optional<Way>>;

  void add(const std::filesystem::path& path);
  void add_neighbors();
  Ways reached(const std::vector<std::string>& needed) const;
  void find_ways(Ways& ways) const;
  void find_missing(const std::vector<std::string>& needed, const Ways& ways,
                    const std::string& label, ChainWalk& found) const;
  std::optional<ChainWalk> walk_by(const std::vector<std::string>& needed, const Ways& ways,
                                   const std::map<std::string, BaseModel>& roots);
  std::optional<ArtifactReader> checked(const Link& link);
  std::map<std::string, BaseModel> find_roots(const Ways& ways) const;
  void note_damage(Link& link, const std::string& what);
  /// Undamaged ones that state it.
  std::vector<const Link*> stating(const std::string& digest) const;

  const std::filesystem::path folder_;
  const ArtifactLimits limits_;
  const bool stated_;
  bool has_neighbors_ = false;
  std::vector<Link> links_;
  std::multimap<std::string, std::size_t> by_digest_;
  std::vector<std::string> others_, damaged_;
};

}  // namespace gbcompress
