#include "gbcompress/options.h"

#include <algorithm>

#include "base/glob.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kNearNames = 3;

}  // namespace

std::vector<std::string> idle_rule_warnings(const std::vector<LayerRule>& rules,
                                            const std::vector<std::string>& names) {
  std::vector<std::string> warnings;
  for (const LayerRule& rule : rules) {
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return matches_glob(rule.match, name); }))
      continue;
    std::string near;
    for (const std::string& name : nearest_few(rule.match, names, kNearNames))
      near += (near.empty() ? "; the nearest are " : ", ") + printable(name);
    warnings.push_back("warning: the rule for " + printable(rule.match) + " matches no tensor" +
                       near);
  }
  return warnings;
}

}  // namespace gbcompress
