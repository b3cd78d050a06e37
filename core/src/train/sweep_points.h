#pragma once
/// Points of a sweep on disk: points.jsonl, what the sweep depends on first, then one point a line.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gbcompress/sweep.h"

namespace gbcompress {

class SweepPoints {
 public:
  /// Reads `folder`/points.jsonl, or begins it.
  /// @param files  names that the sweep will write: refused where they exist and no sweep wrote
  ///               them
  /// @throws Error(kUsage) naming the facts that differ; Error(kExists, kCorrupt, kIo)
  SweepPoints(std::filesystem::path folder, const CheckpointFacts& facts,
              const std::vector<std::string>& files);

  /// The point of that method and setting, null where it is still to be computed, and where its
  /// file is gone or has another size.
  const SweepPoint* find(const std::string& method, const std::string& setting) const;
  /// Adds or replaces a point; when it returns, it is on the disk.
  void add(SweepPoint point);
  const std::vector<SweepPoint>& all() const { return points_; }

 private:
  void write() const;
  std::filesystem::path folder_;
  CheckpointFacts facts_;
  std::vector<SweepPoint> points_;
};

/// A point as one object: a line of points.jsonl, an element of the report's list.
nlohmann::ordered_json point_json(const SweepPoint& point);

}  // namespace gbcompress
