// What verbs do with their arguments and results.
#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <cstdlib>
#include <iostream>

#include "command.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress::cli {

std::string Arguments::text(const std::string& option) const {
  return has(option) ? map_[option].as<std::string>() : "";
}

std::vector<std::string> Arguments::list(const std::string& option) const {
  if (!has(option)) return {};
  const boost::any& value = map_[option].value();
  if (const auto* one = boost::any_cast<std::string>(&value)) return {*one};
  return boost::any_cast<std::vector<std::string>>(value);
}

Arguments Arguments::with(const std::string& option, const std::string& value) const {
  Arguments other = *this;
  other.map_.erase(option);
  other.map_.insert({option, boost::program_options::variable_value(value, false)});
  return other;
}

Arguments Arguments::with_list(const std::string& option, std::vector<std::string> values) const {
  Arguments other = *this;
  other.map_.erase(option);
  other.map_.insert(
      {option, boost::program_options::variable_value(std::move(values), /*defaulted=*/false)});
  return other;
}

Arguments Arguments::with_words(std::vector<std::string> words) const {
  Arguments other = *this;
  other.words_ = std::move(words);
  return other;
}

Arguments Arguments::with_inputs(std::vector<std::filesystem::path> inputs) const {
  Arguments other = *this;
  other.call_.inputs = std::move(inputs);
  return other;
}

std::vector<std::filesystem::path> paths_of(const Arguments& arguments, const std::string& option) {
  const std::vector<std::string> values = arguments.list(option);
  return {values.begin(), values.end()};
}

boost::program_options::typed_value<std::string>* text_value(const char* name) {
  return boost::program_options::value<std::string>()->value_name(name);
}

void print_json(const nlohmann::ordered_json& object) {
  // Names from files need not be UTF-8; what is not becomes U+FFFD.
  std::cout << object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void say(const std::string& text) { log_line(with_flags(text)); }

std::int64_t parse_bytes(const std::string& text, const std::string& option) {
  const std::vector<std::pair<std::string, double>> units = {
      {"", 1},          {"b", 1},
      {"k", 1e3},       {"kb", 1e3},
      {"m", 1e6},       {"mb", 1e6},
      {"g", 1e9},       {"gb", 1e9},
      {"t", 1e12},      {"tb", 1e12},
      {"kib", 1024},    {"mib", 1048576},
      {"gib", 1 << 30}, {"tib", 1099511627776.0}};
  const char* begin = text.c_str();
  char* end = nullptr;
  const bool digit = !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])));
  const double number = digit ? std::strtod(begin, &end) : -1;
  std::string unit = digit ? end : "";
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [name, factor] : units) {
    const double bytes = number * factor;
    if (unit == name && bytes >= 1 && bytes < 9e18) return static_cast<std::int64_t>(bytes);
  }
  throw Error(Errc::kUsage, option +
                                " must be a size of at least 1 byte, such as 50000, 50k or "
                                "1MB, not " +
                                printable(text));
}

}  // namespace gbcompress::cli
