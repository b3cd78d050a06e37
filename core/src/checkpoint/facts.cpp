#include <algorithm>

#include "gbcompress/checkpoint.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kShown = 80;      // bytes of a value
constexpr std::size_t kBefore = 20;     // of them before the first difference
constexpr std::size_t kFactsShown = 8;  // the rest is counted

/// A value, or the part of a long one where it begins to differ.
std::string excerpt(const std::string& value, std::size_t difference) {
  if (value.size() <= kShown) return "'" + printable(value) + "'";
  const std::size_t from = std::min(difference - std::min(difference, kBefore), value.size());
  return "'" + std::string(from > 0 ? "..." : "") + printable(value.substr(from, kShown)) +
         (from + kShown < value.size() ? "..." : "") + "'";
}

std::string describe(const std::string& name, const std::string* stored, const std::string& now) {
  if (!stored) return printable(name) + " (not in the checkpoint, now " + excerpt(now, 0) + ")";
  const auto at = static_cast<std::size_t>(
      std::mismatch(now.begin(), now.end(), stored->begin(), stored->end()).first - now.begin());
  return printable(name) + " (in the checkpoint " + excerpt(*stored, at) + ", now " +
         excerpt(now, at) + ")";
}

}  // namespace

void CheckpointReader::require(const CheckpointFacts& now) const {
  std::string list;
  std::size_t different = 0;
  for (const auto& [name, value] : now) {
    const auto found = facts_.find(name);
    const std::string* stored = found == facts_.end() ? nullptr : &found->second;
    if (stored && *stored == value) continue;
    if (++different <= kFactsShown)
      list += (list.empty() ? "" : ", ") + describe(name, stored, value);
  }
  if (different == 0) return;
  if (different > kFactsShown) list += " and " + std::to_string(different - kFactsShown) + " more";
  throw Error(Errc::kUsage, printable(folder_.string()) +
                                " belongs to another run, these differ: " + list +
                                "; resume with the same ones or start without `resume`");
}

}  // namespace gbcompress
