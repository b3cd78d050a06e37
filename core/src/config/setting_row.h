#pragma once
/// Rows of a settings table: how a key is read into a field, what it accepts, and how it is shown.

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/value.h"

namespace gbcompress {

/// One key of a T (Settings or LayerRule).
template <typename T>
struct SettingRow {
  std::string key, type, help;
  std::string accepts;                               ///< "an integer from 1 to 65536"
  std::vector<std::string> choices;                  ///< of a string with a fixed set of values
  std::function<bool(T&, const SettingValue&)> set;  ///< false: wrong type or out of range
  std::function<SettingValue(const T&)> get;
  /// Reads a text with a unit, "8x" or "1%", as a value; null: numbers are written without units.
  SettingValue (*with_unit)(std::string_view text) = nullptr;
  /// "; use ..." for a value that is out of range, or ""; null: there is none.
  std::string (*advice)(const SettingValue& value) = nullptr;
};

namespace detail {
template <typename F>
SettingValue shown(const F& field) {
  return SettingValue(field);
}
inline SettingValue shown(const std::string& field) {
  return field.empty() ? SettingValue() : SettingValue(field);
}
inline SettingValue shown(std::uint64_t field) { return static_cast<std::int64_t>(field); }
template <typename F>
SettingValue shown(const std::optional<F>& field) {
  return field ? SettingValue(*field) : SettingValue();
}
}  // namespace detail

/// @param field  T& -> reference to the field
template <typename T, typename Field>
SettingRow<T> integer_row(std::string key, std::int64_t low, std::int64_t high, std::string help,
                          Field field) {
  std::string accepts = "an integer of at least " + std::to_string(low);
  if (high != std::numeric_limits<std::int64_t>::max())
    accepts = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  return {std::move(key),
          "integer",
          std::move(help),
          accepts,
          {},
          [=](T& target, const SettingValue& value) {
            const auto* whole = std::get_if<std::int64_t>(&value);
            if (!whole || *whole < low || *whole > high) return false;
            field(target) = static_cast<std::decay_t<decltype(field(target))>>(*whole);
            return true;
          },
          [=](const T& source) { return detail::shown(field(source)); }};
}

/// @param fits  which finite numbers are in range, said in words by `accepts`
template <typename T, typename Field>
SettingRow<T> number_row(std::string key, std::string accepts, bool (*fits)(double),
                         std::string help, Field field) {
  return {std::move(key),
          "number",
          std::move(help),
          std::move(accepts),
          {},
          [=](T& target, const SettingValue& value) {
            const auto number = as_number(value);
            if (!number || !std::isfinite(*number) || !fits(*number)) return false;
            field(target) = *number;
            return true;
          },
          [=](const T& source) { return detail::shown(field(source)); }};
}

template <typename T, typename Field>
SettingRow<T> numbers_row(std::string key, std::string accepts, bool (*fits)(double),
                          std::string help, Field field) {
  return {std::move(key),
          "numbers",
          std::move(help),
          std::move(accepts),
          {},
          [=](T& target, const SettingValue& value) {
            const auto numbers = as_numbers(value);
            if (!numbers || numbers->size() > 1024) return false;
            for (const double number : *numbers)
              if (!std::isfinite(number) || !fits(number)) return false;
            field(target) = *numbers;
            return true;
          },
          [=](const T& source) { return detail::shown(field(source)); }};
}

/// Widths of hidden layers.
template <typename T, typename Field>
SettingRow<T> widths_row(std::string key, std::string help, Field field) {
  return {std::move(key),
          "integers",
          std::move(help),
          "1 to 8 integers from 1 to 65536",
          {},
          [=](T& target, const SettingValue& value) {
            const auto widths = as_integers(value);
            if (!widths || widths->empty() || widths->size() > 8) return false;
            for (const std::int64_t width : *widths)
              if (width < 1 || width > 65'536) return false;
            field(target) = *widths;
            return true;
          },
          [=](const T& source) { return detail::shown(field(source)); }};
}

/// Any text of 1 to 512 bytes.
template <typename T, typename Field>
SettingRow<T> text_row(std::string key, std::string help, Field field) {
  return {std::move(key),
          "string",
          std::move(help),
          "a string of 1 to 512 bytes",
          {},
          [=](T& target, const SettingValue& value) {
            const auto* text = std::get_if<std::string>(&value);
            if (!text || text->empty() || text->size() > 512) return false;
            field(target) = *text;
            return true;
          },
          [=](const T& source) { return detail::shown(field(source)); }};
}

/// One of an enumeration's names. `field` may be the enumeration or an optional of it.
template <typename T, typename Enum, typename Field>
SettingRow<T> choice_row(std::string key, const std::vector<std::pair<std::string, Enum>>& names,
                         std::string help, Field field) {
  std::string accepts = "one of ";
  std::vector<std::string> choices;
  for (const auto& [name, ignored] : names) {
    accepts += (choices.empty() ? "" : ", ") + name;
    choices.push_back(name);
  }
  return {std::move(key),
          "string",
          std::move(help),
          accepts,
          choices,
          [=](T& target, const SettingValue& value) {
            const std::string given = choice_text(value);
            for (const auto& [name, constant] : names) {
              if (given != name) continue;
              field(target) = constant;
              return true;
            }
            return false;
          },
          [=](const T& source) {
            const std::optional<Enum> current = field(source);
            for (const auto& [name, constant] : names)
              if (current == constant) return SettingValue(name);
            return SettingValue();
          }};
}

}  // namespace gbcompress
