#pragma once
/// A page is made to be sent: it names files, not the folders of the machine that it was written
/// on.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"

namespace gbcompress::cli {

/// The folders that a call names, absolute and as they were given, and the working directory.
class KnownFolders {
 public:
  KnownFolders() = default;
  explicit KnownFolders(const Arguments& arguments);

  /// A word of the command line, or a message, with names of files in place of paths.
  std::string without(std::string text) const;
  /// The same of all strings of an object, but for names of tensors, which may look like paths.
  void remove_from(nlohmann::ordered_json& value) const;

 private:
  void add(std::string path);
  std::vector<std::string> folders_;  ///< with a slash at the end, the longest first
};

}  // namespace gbcompress::cli
