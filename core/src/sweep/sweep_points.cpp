#include "sweep/sweep_points.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/stale_temporaries.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kName = "points.jsonl";
constexpr std::size_t kMaxBytes = 64 << 20;
constexpr std::size_t kMostNamed = 4;
/// Between two looks for a point that another rank computes.
constexpr std::chrono::milliseconds kLook{100};

SweepPoint from_json(const ordered_json& line) {
  SweepPoint p;
  p.method = line.at("method").get<std::string>();
  p.setting = line.at("setting").get<std::string>();
  // Not get<>(): it casts numbers that no integer holds, such as 1e300.
  p.bytes = line.at("bytes").get_ref<const ordered_json::number_integer_t&>();
  p.ratio = line.at("ratio").get<double>();
  if (!line.at("metric").is_null()) p.metric = line.at("metric").get<double>();
  p.weight_error = line.at("weight_error").get<double>();
  p.seconds = line.at("seconds").get<double>();
  p.file = line.at("file").get<std::string>();
  p.target_met = line.at("target_met").get<bool>();
  return p;
}

/// Adds a point, last, or replaces the one of its method and setting.
void put(SweepPoint point, std::vector<SweepPoint>& points) {
  std::erase_if(points, [&](const SweepPoint& p) {
    return p.method == point.method && p.setting == point.setting;
  });
  points.push_back(std::move(point));
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

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

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
                         const std::vector<std::string>& files, Group* group)
    : folder_(std::move(folder)),
      facts_(facts),
      group_(group && group->world() > 1 ? group : nullptr),
      rank_(group_ ? group_->rank() : 0) {
  if (rank_ == 0) gather(files);
  if (group_) group_->barrier();
  if (rank_ > 0) read(folder_ / kName, points_);
}

void SweepPoints::gather(const std::vector<std::string>& files) {
  std::error_code code;
  const std::vector<fs::path> left = others();
  const bool begun = fs::exists(folder_ / kName, code);
  if (!begun && left.empty())
    for (const std::string& file : files)
      if (fs::exists(folder_ / file, code))
        throw Error(Errc::kExists, printable((folder_ / file).string()) +
                                       " exists and is of no sweep; take another folder");
  if (begun) read(folder_ / kName, own_);
  for (const fs::path& path : left) read(path, own_);
  // The folder holds this sweep, and no rank has begun: what a killed one was writing can go.
  remove_temporaries_of_killed(folder_ / kName);
  for (const fs::path& path : left) remove_temporaries_of_killed(path);
  for (const std::string& file : files) remove_temporaries_of_killed(folder_ / file);
  points_ = own_;
  if (!begun || !left.empty()) write(own_);
  remove_others();
}

fs::path SweepPoints::own_path() const {
  return folder_ / (rank_ == 0 ? kName : "points-" + std::to_string(rank_) + ".jsonl");
}

std::vector<fs::path> SweepPoints::others() const {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator entry(folder_, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kBefore = "points-", kAfter = ".jsonl";
    if (name.size() <= kBefore.size() + kAfter.size() || !name.starts_with(kBefore) ||
        !name.ends_with(kAfter))
      continue;
    const std::string number =
        name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
    if (number.find_first_not_of("0123456789") == std::string::npos) paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void SweepPoints::remove_others() const {
  std::error_code code;
  for (const fs::path& path : others()) fs::remove(path, code);
}

void SweepPoints::read(const fs::path& path, std::vector<SweepPoint>& into) const {
  try {
    std::istringstream lines(read_text(path, kMaxBytes));
    std::string line;
    std::getline(lines, line);
    const CheckpointFacts there = ordered_json::parse(line).at("facts").get<CheckpointFacts>();
    if (there != facts_)
      throw Error(Errc::kUsage,
                  printable(folder_.string()) + " holds points of another sweep; they differ in " +
                      differences(there, facts_) + "; take another folder, or the same settings");
    while (std::getline(lines, line)) put(from_json(ordered_json::parse(line)), into);
  } catch (const nlohmann::json::exception&) {
    throw Error(Errc::kCorrupt,
                printable(path.string()) + " is not what a sweep writes; take another folder");
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

const SweepPoint& SweepPoints::wait_for(const std::string& method, const std::string& setting) {
  for (;;) {
    if (const SweepPoint* point = find(method, setting)) return *point;
    throw_if_interrupted();
    if (!group_)
      throw Error(Errc::kIo, "the file of " + setting + " in " + printable(folder_.string()) +
                                 " was removed during the sweep; call it again");
    group_->check();
    std::this_thread::sleep_for(kLook);
    std::vector<SweepPoint> known;
    if (rank_ > 0) read(folder_ / kName, known);
    for (const fs::path& path : others()) read(path, known);
    // points.jsonl may hold what was computed again since, because its file was gone.
    for (SweepPoint& point : known)
      if (!find(point.method, point.setting)) put(std::move(point), points_);
  }
}

void SweepPoints::add(SweepPoint point) {
  put(point, own_);
  put(std::move(point), points_);
  write(own_);
}

void SweepPoints::conclude(const std::vector<std::pair<std::string, std::string>>& order) {
  for (const auto& [method, setting] : order)
    if (const SweepPoint* point = find(method, setting)) put(SweepPoint(*point), points_);
  own_ = points_;
  write(own_);
  remove_others();
}

void SweepPoints::write(const std::vector<SweepPoint>& points) const {
  std::string text = ordered_json{{"sweep", 1}, {"facts", facts_}}.dump() + "\n";
  for (const SweepPoint& p : points) text += point_json(p).dump() + "\n";
  AtomicFile file(own_path(), true);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace gbcompress
