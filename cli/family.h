#pragma once
/// Models of one call that are stored as exact changes since each other.

#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/base_model.h"

namespace gbcompress::cli {

class Family {
 public:
  explicit Family(const Arguments& arguments) : arguments_(arguments) {}

  /// The earlier model that `input` is stored as the change since: a path for --base, or "".
  std::string base_of(const std::string& input) const;
  /// Takes a model whose file was written.
  /// @param artifact  that file, or the folder that holds it
  void add(const std::string& input, const std::string& artifact);

 private:
  const Arguments& arguments_;
  std::vector<BaseModel> models_;
  std::vector<std::string> paths_;  ///< for --base
};

}  // namespace gbcompress::cli
