#include "format/folder/left_out.h"

#include <algorithm>
#include <cstdio>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string size_text(std::int64_t bytes) {
  double number = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"kB", "MB", "GB"}) {
    if (number < 1000) break;
    number /= 1000;
    unit = next;
  }
  char text[40];
  std::snprintf(text, sizeof text, number < 10 && *unit != 'B' ? "%.1f %s" : "%.0f %s", number,
                unit);
  return text;
}

std::string text_of(const LeftOut& each) {
  const std::string name = printable(each.name);
  if (each.tensors > 0 && each.made_by.empty())
    return name + " (" + std::to_string(each.tensors) +
           (each.tensors == 1 ? " tensor, " : " tensors, ") + size_text(each.bytes) + ")";
  return each.made_by.empty() ? name : name + " (" + printable(each.made_by) + ")";
}

}  // namespace

void sort_left_out(std::vector<LeftOut>& list) {
  std::sort(list.begin(), list.end(), [](const LeftOut& a, const LeftOut& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
}

std::string names_text(const std::vector<std::string>& names) {
  std::vector<LeftOut> list;
  list.reserve(names.size());
  for (const std::string& name : names) list.push_back({.name = name});
  return left_out_text(list);
}

std::string left_out_text(const std::vector<LeftOut>& list) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, list.size()); ++i)
    text += (i > 0 ? ", " : "") + text_of(list[i]);
  if (list.size() > kShown) text += " and " + std::to_string(list.size() - kShown) + " more";
  return text;
}

}  // namespace gbcompress
