#pragma once
/// Names of version 0.1 that settings still accept, each with a warning.

#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace gbcompress {

/// What a key is called now; any other key as it is.
/// @param at        where it stands, named in the warning: "run.toml:2:1", "--mode"
/// @param warnings  gets a line for a name of version 0.1
std::string present_key(const std::string& key, const std::string& at,
                        std::vector<std::string>& warnings);
/// What the key was called, or "".
std::string former_key(std::string_view key);
/// The same for the names that values have; what is no such name stays.
SettingValue present_value(const std::string& key, SettingValue value, const std::string& at,
                           std::vector<std::string>& warnings);

}  // namespace gbcompress
