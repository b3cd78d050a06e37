#include "train/sweep_points.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kName = "points.jsonl";
constexpr std::size_t kMaxBytes = 64 << 20;
constexpr std::size_t kMostNamed = 4;

SweepPoint from_json(const ordered_json& line) {
  SweepPoint p;
  p.method = line.at("method").get<std::string>();
  p.setting = line.at("setting").get<std::string>();
  p.bytes = line.at("bytes").get<std::int64_t>();
  p.ratio = line.at("ratio").get<double>();
  if (!line.at("metric").is_null()) p.metric = line.at("metric").get<double>();
  p.weight_error = line.at("weight_error").get<double>();
  p.seconds = line.at("seconds").get<double>();
  p.file = line.at("file").get<std::string>();
  p.target_met = line.at("target_met").get<bool>();
  return p;
}

/// "setting train.epochs (4 there, 2 here)", some of them.
std::string differences(const CheckpointFacts& there, const CheckpointFacts& here) {
  std::vector<std::string> texts;
  const auto value = [](const CheckpointFacts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("unset") : printable(found->second).substr(0, 40);
  };
  CheckpointFacts all = there;
  all.insert(here.begin(), here.end());
  for (const auto& [name, ignored] : all)
    if (value(there, name) != value(here, name))
      texts.push_back(printable(name) + " (" + value(there, name) + " there, " + value(here, name) +
                      " here)");
  std::string text;
  for (std::size_t i = 0; i < std::min(texts.size(), kMostNamed); ++i)
    text += (i ? ", " : "") + texts[i];
  if (texts.size() > kMostNamed)
    text += " and " + std::to_string(texts.size() - kMostNamed) + " more";
  return text;
}

}  // namespace

nlohmann::ordered_json point_json(const SweepPoint& p) {
  return {{"method", p.method},
          {"setting", p.setting},
          {"bytes", p.bytes},
          {"ratio", p.ratio},
          {"metric", p.metric ? ordered_json(*p.metric) : ordered_json()},
          {"weight_error", p.weight_error},
          {"seconds", p.seconds},
          {"file", p.file},
          {"target_met", p.target_met}};
}

SweepPoints::SweepPoints(fs::path folder, const CheckpointFacts& facts,
                         const std::vector<std::string>& files)
    : folder_(std::move(folder)), facts_(facts) {
  const fs::path path = folder_ / kName;
  const std::string shown = printable(path.string());
  std::error_code code;
  if (!fs::exists(path, code)) {
    for (const std::string& file : files)
      if (fs::exists(folder_ / file, code))
        throw Error(Errc::kExists, printable((folder_ / file).string()) +
                                       " exists and is of no sweep; take another folder");
    write();
    return;
  }
  try {
    std::istringstream lines(read_text(path, kMaxBytes));
    std::string line;
    std::getline(lines, line);
    const CheckpointFacts there = ordered_json::parse(line).at("facts").get<CheckpointFacts>();
    if (there != facts)
      throw Error(Errc::kUsage,
                  printable(folder_.string()) + " holds points of another sweep; they differ in " +
                      differences(there, facts) + "; take another folder, or the same settings");
    while (std::getline(lines, line)) points_.push_back(from_json(ordered_json::parse(line)));
  } catch (const nlohmann::json::exception&) {
    throw Error(Errc::kCorrupt, shown + " is not what a sweep writes; take another folder");
  }
}

const SweepPoint* SweepPoints::find(const std::string& method, const std::string& setting) const {
  for (const SweepPoint& p : points_) {
    if (p.method != method || p.setting != setting) continue;
    std::error_code code;
    if (!p.file.empty() &&
        static_cast<std::int64_t>(fs::file_size(folder_ / p.file, code)) != p.bytes)
      return nullptr;
    return &p;
  }
  return nullptr;
}

void SweepPoints::add(SweepPoint point) {
  std::erase_if(points_, [&](const SweepPoint& p) {
    return p.method == point.method && p.setting == point.setting;
  });
  points_.push_back(std::move(point));
  write();
}

void SweepPoints::write() const {
  std::string text = ordered_json{{"sweep", 1}, {"facts", facts_}}.dump() + "\n";
  for (const SweepPoint& p : points_) text += point_json(p).dump() + "\n";
  AtomicFile file(folder_ / kName, true);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace gbcompress
