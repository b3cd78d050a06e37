#pragma once
/// Which tensors of a checkpoint are the model's, and what lies beside them.

#include <string>
#include <utility>
#include <vector>

#include "format/torch/pickle.h"
#include "gbcompress/tensors.h"

namespace gbcompress {

struct FoundModel {
  /// Name and value: tensors; with OpenOptions::keep_all also numbers, booleans, and lists of
  /// integers or fractions.
  std::vector<std::pair<std::string, PickleHandle>> values;
  std::vector<std::string> left_out;  ///< dotted names of what is not read, the largest first
  std::vector<std::string> notes;     ///< one line each
};

/// @param label  the file, for messages
/// @throws Error(kUnsupported) without a model, or naming an object that stands where a
///         tensor is needed; Error(kUsage) for several models, naming them;
///         Error(kNotFound) for an unknown part; Error(kLimit) for nesting that is too deep
FoundModel find_model(const PickleTree& tree, const OpenOptions& options, const std::string& label);

}  // namespace gbcompress
