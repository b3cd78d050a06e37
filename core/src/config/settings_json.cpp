#include <nlohmann/json.hpp>

#include "config/setting_rows.h"

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

/// How a run is carried out, not what comes out of it: a file does not remember it, and a checkpoint
/// can be taken up with another.
bool describes_run_only(const std::string& key) {
  return key.starts_with("checkpoint.") || key.starts_with("ranks.") || key == "train.threads" ||
         key == "train.kernel";
}

}  // namespace

std::string Settings::to_json() const {
  ordered_json root = {{"schema", 1}};
  for (const auto& row : setting_rows()) {
    if (describes_run_only(row.key)) continue;
    const auto dot = row.key.find('.');
    root[row.key.substr(0, dot)][row.key.substr(dot + 1)] = std::visit(ToJson{}, row.get(*this));
  }
  // Only what a rule overrides: an absent key means something else than null would.
  for (const auto& rule : compress.bottleneck.layers) {
    ordered_json entry;
    for (const auto& row : layer_rows()) {
      const SettingValue value = row.get(rule);
      if (!std::holds_alternative<std::monostate>(value))
        entry[row.key] = std::visit(ToJson{}, value);
    }
    root["layer"].push_back(entry);
  }
  return root.dump();
}

}  // namespace gbcompress
