#include "config/value.h"

#include <array>
#include <charconv>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string text_of(std::int64_t value) { return std::to_string(value); }

/// The shortest text that reads back as the same number.
std::string text_of(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + text_of(value);
  return text + "]";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

struct ToToml {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(const OtherValue& other) const { return other.description; }
  template <typename T>
  std::string operator()(const T& value) const {
    return text_of(value);
  }
};

}  // namespace

std::string to_toml(const SettingValue& value) { return std::visit(ToToml{}, value); }

std::string choice_text(const SettingValue& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return *text == "true" ? "yes" : *text == "false" ? "no" : *text;
  const auto* other = std::get_if<OtherValue>(&value);
  if (!other || !other->truth) return "";
  return *other->truth ? "yes" : "no";
}

SettingValue number_text(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole);
      read.ec == std::errc() && read.ptr == end)
    return whole;
  double number = 0;
  if (const auto read = std::from_chars(text.data(), end, number);
      read.ec == std::errc() && read.ptr == end)
    return number;
  return {};
}

std::optional<double> as_number(const SettingValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> as_integers(const SettingValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::vector{*whole};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) return *list;
  return std::nullopt;
}

std::optional<std::vector<double>> as_numbers(const SettingValue& value) {
  if (const auto number = as_number(value)) return std::vector{*number};
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return *list;
  if (const auto whole = as_integers(value))
    return std::vector<double>(whole->begin(), whole->end());
  return std::nullopt;
}

}  // namespace gbcompress
