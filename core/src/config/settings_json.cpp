#include <nlohmann/json.hpp>

#include "config/setting_rows.h"
#include "gbcompress/version.h"

namespace gbcompress {
namespace {

using nlohmann::ordered_json;

struct ToJson {
  ordered_json operator()(std::monostate) const { return nullptr; }
  ordered_json operator()(const OtherValue&) const { return nullptr; }
  template <typename T>
  ordered_json operator()(const T& value) const {
    return value;
  }
};

/// How a run is carried out, not what comes out of it: a file does not remember it, and a
/// checkpoint can be taken up with another.
bool describes_run_only(const std::string& key) {
  return key.starts_with("checkpoint.") || key.starts_with("ranks.") || key == "train.threads" ||
         key == "train.device" || key == "train.measure_epochs";
}

/// Adds every key whose value is not that of `except`.
void fill(ordered_json& root, const Settings& settings, const Settings* except) {
  for (const auto& row : setting_rows()) {
    if (describes_run_only(row.key)) continue;
    const ordered_json value = std::visit(ToJson{}, row.get(settings));
    if (except && value == std::visit(ToJson{}, row.get(*except))) continue;
    const auto dot = row.key.find('.');
    root[row.key.substr(0, dot)][row.key.substr(dot + 1)] = value;
  }
  // Only what a rule overrides: an absent key means something else than null would.
  for (const auto& rule : settings.compress.bottleneck.layers) {
    ordered_json entry;
    for (const auto& row : layer_rows()) {
      const SettingValue value = row.get(rule);
      if (!std::holds_alternative<std::monostate>(value))
        entry[row.key] = std::visit(ToJson{}, value);
    }
    root["layer"].push_back(entry);
  }
}

}  // namespace

std::string Settings::to_json() const {
  ordered_json root = {{"schema", 1}};
  fill(root, *this, nullptr);
  return root.dump();
}

std::string Settings::changes_json() const {
  ordered_json root = {{"version", GBC_VERSION_STRING}};
  const Settings defaults;
  fill(root, *this, &defaults);
  return root.dump();
}

}  // namespace gbcompress
