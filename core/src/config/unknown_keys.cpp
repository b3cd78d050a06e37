#include "config/unknown_keys.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "base/near_miss.h"
#include "config/removed_names.h"
#include "config/setting_rows.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Keys that fit equally well are named up to this number.
constexpr std::size_t kMostNamed = 3;

std::string_view last_part(std::string_view key) { return key.substr(key.rfind('.') + 1); }
std::string_view section(std::string_view key) { return key.substr(0, key.find('.')); }

/// The keys that are nearest to a misspelled one.
class Nearest {
 public:
  explicit Nearest(const std::string& key) : key_(key) {}

  /// As a whole, where no section was given: "gnets" means the table gnet.
  void try_whole(const std::string& meant) {
    const std::size_t distance = edit_distance(key_, meant);
    if (is_near(key_, distance)) keep(distance, meant);
  }
  /// In its last part alone: "lambd" and "train.lambda" mean rate.lambda. A section that was given
  /// and differs counts as one letter.
  void try_last_part(const std::string& meant) {
    const std::string_view last = last_part(key_);
    const std::size_t distance = edit_distance(last, last_part(meant));
    if (distance > 0 && !is_near(last, distance)) return;
    const bool sections_differ =
        key_.find('.') != std::string::npos && section(key_) != section(meant);
    keep(distance + sections_differ, meant);
  }
  std::string hint() const {
    std::string text;
    const std::size_t count = std::min(kMostNamed, best_.size());
    for (std::size_t i = 0; i < count; ++i)
      text += (i == 0 ? "; did you mean " : i + 1 < count ? ", " : " or ") + best_[i];
    return text.empty() ? "" : text + "?";
  }

 private:
  void keep(std::size_t distance, const std::string& meant) {
    if (distance > distance_) return;
    if (distance < distance_) best_.clear();
    distance_ = distance;
    if (std::find(best_.begin(), best_.end(), meant) == best_.end()) best_.push_back(meant);
  }

  const std::string& key_;
  std::size_t distance_ = std::numeric_limits<std::size_t>::max();
  std::vector<std::string> best_;
};

/// Tables are named too, so that [gnets] finds [gnet].
std::string hint_for(const std::string& key) {
  Nearest nearest(key);
  if (key.find('.') == std::string::npos) {
    std::set<std::string> tables = {"layer", "schema"};
    for (const auto& row : setting_rows()) tables.insert(std::string(section(row.key)));
    for (const std::string& table : tables) nearest.try_whole(table);
    for (const auto& row : setting_rows()) nearest.try_whole(row.key);
  }
  for (const auto& row : setting_rows()) nearest.try_last_part(row.key);
  return nearest.hint();
}

}  // namespace

void UnknownKeys::add(const std::string& at, const std::string& key) {
  const std::string removal = removal_of(key);
  lines_.push_back(at + ": " +
                   (removal.empty() ? "unknown key " + printable(key) + hint_for(key) : removal));
}

void UnknownKeys::add_layer(const std::string& at, const std::string& key) {
  if (const std::string removal = removal_of("layer." + key); !removal.empty()) {
    lines_.push_back(at + ": " + removal);
    return;
  }
  std::vector<std::string> keys;
  for (const auto& row : layer_rows()) keys.push_back(row.key);
  lines_.push_back(at + ": unknown key layer." + printable(key) + did_you_mean(key, keys));
}

void UnknownKeys::throw_if_any() const {
  if (lines_.empty()) return;
  if (lines_.size() == 1) throw Error(Errc::kConfig, lines_[0]);
  std::string text = std::to_string(lines_.size()) + " keys are unknown:";
  for (const std::string& line : lines_) text += "\n  " + line;
  throw Error(Errc::kConfig, text);
}

}  // namespace gbcompress
