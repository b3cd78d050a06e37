#pragma once
/// Patterns of names.

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// Whether `text` fits `pattern`, in which '*' stands for any characters, none too.
bool matches_glob(std::string_view pattern, std::string_view text);

/// Names and patterns of names together. A name is found in constant time, however many there are.
class GlobSet {
 public:
  explicit GlobSet(const std::vector<std::string>& patterns);
  /// Whether any of the patterns fits the text.
  bool matches(std::string_view text) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
  std::vector<std::string> globs_;
};

}  // namespace gbcompress
