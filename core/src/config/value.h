#pragma once
/// What a configuration holds, free of any TOML library.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gbcompress {

/// Something that is a valid TOML value, but of no type that a setting has.
struct OtherValue {
  std::string description;         ///< "a boolean", "a table"
  std::optional<bool> truth = {};  ///< of a boolean, which stands for yes and no
};
/// std::monostate: unset.
using SettingValue = std::variant<std::monostate, std::int64_t, double, std::string,
                                  std::vector<std::int64_t>, std::vector<double>, OtherValue>;

/// As TOML writes it; "" for an unset one. Strings are made printable.
std::string to_toml(const SettingValue& value);

/// A decimal number, whole or not; unset for any other text.
SettingValue number_text(std::string_view text);
/// A string, or yes or no for a boolean or its word; "" for anything else.
std::string choice_text(const SettingValue& value);
/// A number, integer or not. Unset for anything else.
std::optional<double> as_number(const SettingValue& value);
/// A list of integers; one alone is a list of one.
std::optional<std::vector<std::int64_t>> as_integers(const SettingValue& value);
/// A list of numbers; one alone is a list of one.
std::optional<std::vector<double>> as_numbers(const SettingValue& value);

}  // namespace gbcompress
