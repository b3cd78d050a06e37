#include "layer_text.h"

#include <gbcompress/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace gbcompress::nets {
namespace {

constexpr std::int64_t kMost = 1 << 20;

std::optional<std::int64_t> number_of(const std::string& text, std::int64_t low,
                                      std::int64_t high) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split_outside(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == separator && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<std::int64_t> shape_of(const std::string& text, const std::string& what) {
  std::vector<std::int64_t> shape;
  for (const std::string& part : split_outside(text, 'x')) {
    const auto value = number_of(part, 1, kMost);
    if (!value)
      throw Error(Errc::kUsage, what + " must be numbers from 1 to 1048576 as in 1x28x28, not \"" +
                                    printable(text) + "\"");
    shape.push_back(*value);
  }
  return shape;
}

LayerText::LayerText(std::string_view text, std::size_t number) : number_(number) {
  const std::size_t open = text.find('(');
  type_ = text.substr(0, open);
  if (open == std::string_view::npos) return;
  if (!text.ends_with(')')) refuse("has no closing parenthesis at its end");
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (!inside.empty()) arguments_ = split_outside(inside, ',');
}

std::string LayerText::where() const {
  return "layer " + std::to_string(number_) + " (" + printable(type_) + ")";
}

void LayerText::refuse(const std::string& what) const {
  throw Error(Errc::kUsage, "architecture sequential: " + where() + " " + what);
}

void LayerText::takes(std::vector<std::string> names, std::size_t needed) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const std::size_t equals = arguments_[i].find('=');
    if (equals == std::string::npos && i >= names.size())
      refuse("has " + std::to_string(arguments_.size()) + " arguments; it takes " +
             (list.empty() ? "none" : list));
    const std::string name =
        equals == std::string::npos ? names[i] : arguments_[i].substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse("takes no argument " + printable(name) + "; it takes " +
             (list.empty() ? "none" : list));
    const std::string value =
        equals == std::string::npos ? arguments_[i] : arguments_[i].substr(equals + 1);
    if (!values_.emplace(name, value).second) refuse("has " + name + " twice");
  }
  for (std::size_t i = 0; i < needed; ++i)
    if (!given(names[i])) refuse("needs " + names[i]);
}

std::int64_t LayerText::whole(const std::string& name, std::int64_t otherwise,
                              std::int64_t low) const {
  if (!given(name)) return otherwise;
  const auto value = number_of(values_.at(name), low, kMost);
  if (!value)
    refuse("needs an integer from " + std::to_string(low) + " to 1048576 as " + name + ", not \"" +
           printable(values_.at(name)) + "\"");
  return *value;
}

LayerText::Pair LayerText::pair(const std::string& name, const Pair& otherwise,
                                std::int64_t low) const {
  if (!given(name)) return otherwise;
  Pair pair;
  const std::vector<std::string> parts = split_outside(values_.at(name), 'x');
  for (const std::string& part : parts)
    if (const auto value = number_of(part, low, kMost)) pair.push_back(*value);
  if (pair.size() != parts.size() || pair.empty() || pair.size() > 2)
    refuse("needs integers from " + std::to_string(low) + " to 1048576 as " + name +
           ", one, or two as in 3x5, not \"" + printable(values_.at(name)) + "\"");
  if (pair.size() == 1) pair.push_back(pair[0]);
  return pair;
}

double LayerText::real(const std::string& name, double otherwise) const {
  if (!given(name)) return otherwise;
  const std::string& text = values_.at(name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(value))
    refuse("needs a number as " + name + ", not \"" + printable(text) + "\"");
  return value;
}

bool LayerText::flag(const std::string& name, bool otherwise) const {
  if (!given(name)) return otherwise;
  const std::string& text = values_.at(name);
  if (text != "True" && text != "False")
    refuse("needs True or False as " + name + ", not \"" + printable(text) + "\"");
  return text == "True";
}

}  // namespace gbcompress::nets
