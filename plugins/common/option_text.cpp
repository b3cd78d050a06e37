#include "option_text.h"

#include <gbcompress/error.h>

#include <charconv>
#include <cmath>
#include <cstdio>

namespace gbcompress {

void OptionText::refuse(const std::string& option, const std::string& what) const {
  throw Error(Errc::kUsage, "strategy " + strategy_ + ": " + option + " " + what);
}

double OptionText::parse(const std::string& option, const std::string& text, double low,
                         double high) const {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size() && value >= low && value <= high)
    return value;
  char range[80];
  std::snprintf(range, sizeof range, "%g to %g", low, high);
  refuse(option, "must be " + std::string(range) + ", not \"" + text + "\"");
}

std::string OptionText::text(const std::string& option, const std::string& otherwise) const {
  return given(option) ? options_.at(option) : otherwise;
}

double OptionText::number(const std::string& option, double otherwise, double low,
                          double high) const {
  return given(option) ? parse(option, options_.at(option), low, high) : otherwise;
}

std::int64_t OptionText::whole(const std::string& option, std::int64_t otherwise, std::int64_t low,
                               std::int64_t high) const {
  const auto values = whole_list(option, low, high);
  if (values.size() > 1) refuse(option, "is one number, not a list");
  return values.empty() ? otherwise : values[0];
}

std::vector<double> OptionText::list(const std::string& option, double low, double high) const {
  std::vector<double> values;
  if (!given(option)) return values;
  std::string word, text = options_.at(option);
  text += ',';
  for (const char c : text)
    if (c == ',') {
      values.push_back(parse(option, word, low, high));
      word.clear();
    } else {
      word += c;
    }
  return values;
}

std::vector<std::int64_t> OptionText::whole_list(const std::string& option, std::int64_t low,
                                                 std::int64_t high) const {
  std::vector<std::int64_t> result;
  for (const double value : list(option, static_cast<double>(low), static_cast<double>(high))) {
    if (value != std::floor(value)) refuse(option, "must be integers");
    result.push_back(static_cast<std::int64_t>(value));
  }
  return result;
}

std::vector<double> OptionText::for_each(const std::string& option, double low, double high,
                                         std::size_t count, const std::string& things) const {
  std::vector<double> values = list(option, low, high);
  if (values.size() == 1) values.resize(count, values[0]);
  if (!values.empty() && values.size() != count)
    refuse(option, "has " + std::to_string(values.size()) + " values; this model has " +
                       std::to_string(count) + " " + things +
                       ". Give one value for all, or one for each");
  return values;
}

}  // namespace gbcompress
