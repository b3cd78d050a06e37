#pragma once
/// Names of earlier versions, and what to use in their place.

#include <string>
#include <string_view>
#include <vector>

namespace gbcompress {

struct RemovedName {
  /// A key, an option of the command line ("option world"), a verb with its word ("bench scaling"),
  /// or a value of a key under the last part of its name ("mode=raw").
  std::string_view name;
  std::string_view instead;  ///< behind a semicolon: "use train.flip"
};
const std::vector<RemovedName>& removed_names();

/// "train.mirror was removed; use train.flip", or "" for any other name.
std::string removal_of(std::string_view name);

}  // namespace gbcompress
