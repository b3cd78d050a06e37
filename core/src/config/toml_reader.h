#pragma once
/// TOML text to a flat list of settings with their positions. The one place that knows toml++.

#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace gbcompress {

inline constexpr std::size_t kMaxConfigBytes = 1 << 20;
inline constexpr int kMaxConfigNesting = 32;

/// One key of a document.
struct ConfigItem {
  std::string key;     ///< "gnet.hidden"; inside a [[layer]] table "hidden"
  int layer = -1;      ///< which [[layer]] table it stands in, -1 for none
  SettingValue value;  ///< OtherValue for a table too
  std::string key_at;  ///< "FILE:LINE:COLUMN"
  std::string value_at;
};

struct ConfigDocument {
  std::vector<ConfigItem> items;    ///< in the order written
  std::vector<std::string> layers;  ///< position of each [[layer]] table
};

/// @param label  names the document in messages
/// @throws Error(kConfig): "LABEL:LINE:COLUMN: what", for nesting beyond kMaxConfigNesting too
ConfigDocument parse_config(std::string_view text, const std::string& label);

/// One value as TOML writes it. @throws Error(kConfig): "SOURCE: what"
SettingValue parse_value(std::string_view text, const std::string& source);

/// Throws where brackets and dotted keys nest deeper than kMaxConfigNesting, without recursion, so
/// that no parser's or destructor's stack is spent on a hostile file. @throws Error(kConfig)
void check_nesting(std::string_view text, const std::string& label);

}  // namespace gbcompress
