#pragma once
/// Names of an ONNX model's tensors outside of it: those of different scopes may be the same there.

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "format/onnx/model.h"

namespace gbcompress::onnx {

class UniqueNames {
 public:
  /// A name that no earlier call returned, and that a file of tensors may have: the tensor's own,
  /// else with its scope, else with a number.
  std::string take(const ModelFile& model, std::size_t tensor);

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, std::size_t> numbers_;  ///< the next one of a name
};

/// Where a file of external data lies beside the model, without "." on the way.
std::string inner_path(std::string_view location);

}  // namespace gbcompress::onnx
