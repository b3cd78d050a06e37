#include "table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gbcompress/error.h"

namespace gbcompress::cli {
namespace {

/// Columns of a terminal that UTF-8 text takes, counting a character as one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

/// Columns of fewer characters, numbers as a rule, are not cut.
constexpr std::size_t kNarrowest = 16;
/// Characters of a line of a sentence.
constexpr std::size_t kSentence = 40;

/// Narrows the widest columns until all of them and the gaps take at most so many characters.
void fit(std::vector<std::size_t>& widths, std::size_t columns) {
  std::size_t all = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (const std::size_t each : widths) all += each;
  while (all > columns) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kNarrowest) return;
    --*widest;
    --all;
  }
}

/// Text in lines of at most `characters`, broken after ", " where that is possible.
std::vector<std::string> lines_of(const std::string& text, std::size_t characters) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t comma = text.find(", ", at);
    const std::size_t end = comma == std::string::npos ? text.size() : comma + 2;
    const std::string part = text.substr(at, end - at);
    if (!lines.back().empty() && width(lines.back()) + width(part) > characters + 1)
      lines.emplace_back();
    lines.back() += part;
    at = end;
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

}  // namespace

void Table::sentence(const std::string& label, const std::string& text) {
  std::string first = label;
  for (std::string& line : lines_of(text, kSentence)) {
    row({first, "", std::move(line)});
    first.clear();
  }
}

std::string cut_in_middle(const std::string& text, std::size_t characters) {
  const std::size_t all = width(text);
  if (all <= characters || characters < 5) return text;
  const std::size_t head = (characters - 3) / 2, tail = characters - 3 - head;
  std::string first, last;
  std::size_t at = 0;  // of the character that a byte belongs to
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) >> 6) != 2) ++at;
    if (at <= head) first += c;
    if (at > all - tail) last += c;
  }
  return first + "..." + last;
}

std::string Table::text(std::size_t columns) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  fit(widths, columns);
  std::string result;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = cut_in_middle(row[i], widths[i]);
      const std::string gap(widths[i] - std::min(widths[i], width(cell)), ' ');
      if (i > 0) line += "  ";
      line += i < left_ ? cell + gap : gap + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + "\n";
  }
  return result;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + printable(names[i]);
  return text;
}

std::string with_commas(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t sign = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

std::string fixed(double number, int digits) {
  if (!std::isfinite(number)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += (text.empty() ? "" : "x") + std::to_string(side);
  return text.empty() ? "scalar" : text;
}

std::string rough_bytes(std::int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  return fixed(value, unit == 0 || value >= 100 ? 0 : 1) + " " + kUnits[unit];
}

}  // namespace gbcompress::cli
