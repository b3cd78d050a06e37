#pragma once
/// Points of a sweep on disk: points.jsonl, what the sweep depends on first, then one point a line.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/compress.h"
#include "gbcompress/ranks.h"

namespace gbcompress {

/// Each rank writes a file of its own, rank 0 points.jsonl, the others points-RANK.jsonl, and reads
/// those of all: the folder is all that ranks share. What a job that ended early left behind is
/// gathered by the next one, however many ranks it has.
class SweepPoints {
 public:
  /// Reads `folder`/points.jsonl and those of other ranks, or begins it. [collective]
  /// @param files  names that the sweep will write: refused where they exist and no sweep wrote
  ///               them
  /// @param group  null: one process
  /// @throws Error(kUsage) naming the facts that differ; Error(kExists, kCorrupt, kIo)
  SweepPoints(std::filesystem::path folder, const CheckpointFacts& facts,
              const std::vector<std::string>& files, Group* group);

  /// The point of that method and setting, null where it is still to be computed, and where its
  /// file is gone or has another size.
  const SweepPoint* find(const std::string& method, const std::string& setting) const;
  /// The same once some rank has computed it. @throws Error(kFailure) once another rank has failed;
  ///                                          Error(kInterrupted)
  const SweepPoint& wait_for(const std::string& method, const std::string& setting);
  /// Adds or replaces a point; when it returns, it is on the disk.
  void add(SweepPoint point);
  /// Everything goes to points.jsonl, the given points last and in their order, and files of other
  /// ranks are removed. [rank 0, once all others are done]
  void conclude(const std::vector<std::pair<std::string, std::string>>& order);
  const std::vector<SweepPoint>& all() const { return points_; }

 private:
  std::filesystem::path own_path() const;
  std::vector<std::filesystem::path> others() const;
  /// Appends what a file holds, and checks its facts.
  void read(const std::filesystem::path& path, std::vector<SweepPoint>& into) const;
  void gather(const std::vector<std::string>& files);
  void remove_others() const;
  void write(const std::vector<SweepPoint>& points) const;

  std::filesystem::path folder_;
  CheckpointFacts facts_;
  Group* group_;
  int rank_;
  std::vector<SweepPoint> points_;  ///< of all ranks, as far as they are known
  std::vector<SweepPoint> own_;     ///< of this rank's file
};

/// Six digits, as settings, files and charts have them.
std::string number(double value);
/// A point as one object: a line of points.jsonl, an element of the report's list.
nlohmann::ordered_json point_json(const SweepPoint& point);

}  // namespace gbcompress
