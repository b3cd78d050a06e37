#include "numbers.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace gbcompress::cli {
namespace {

/// The number at the beginning of a text, and what stands behind it, in small letters. -1 where it
/// begins with something else.
std::pair<double, std::string> split(const std::string& text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return {-1, ""};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  std::erase(unit, ' ');
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {number, unit};
}

}  // namespace

double parse_bandwidth(const std::string& text, const std::string& option) {
  auto [number, unit] = split(text);
  if (unit.ends_with("/s")) unit.erase(unit.size() - 2);
  double factor = 1;
  if (unit.ends_with("bit")) {
    unit.erase(unit.size() - 3);
    factor = 0.125;
  } else if (unit.ends_with("b")) {
    unit.erase(unit.size() - 1);
  }
  static constexpr std::pair<const char*, double> kPrefixes[] = {
      {"", 1},     {"k", 1e3},   {"m", 1e6},      {"g", 1e9},
      {"t", 1e12}, {"ki", 1024}, {"mi", 1 << 20}, {"gi", 1 << 30}};
  for (const auto& [prefix, scale] : kPrefixes) {
    const double rate = number * factor * scale;
    if (unit == prefix && rate >= 1 && rate <= 1e15) return rate;
  }
  throw Error(Errc::kUsage, option + " must be a rate such as 25GB/s, 100Mbit/s or 1e9 (bytes a " +
                                "second), not " + printable(text));
}

double parse_seconds(const std::string& text, const std::string& option) {
  const auto [number, unit] = split(text);
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  for (const auto& [name, scale] : kUnits)
    if (unit == name && number >= 0 && number * scale <= 1e6) return number * scale;
  throw Error(Errc::kUsage,
              option + " must be a time such as 20us, 1.5ms or 2s, not " + printable(text));
}

}  // namespace gbcompress::cli
