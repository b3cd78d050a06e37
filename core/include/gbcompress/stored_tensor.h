#pragma once
/// What a `.gbz` file stores of each tensor, and how far its values are from those of the source.
/// No LibTorch.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class ArtifactReader;
class BaseModel;

/// How one tensor ended.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  /// "integers", "short floats", "levels" (exact), "exact", "constant", "tied", "g-nets", "g-nets
  /// and integers", "as in the base", "base and integers"
  std::string stored;
  double step = 0;  ///< of integers; of rows with steps of their own, the one in their middle
  bool row_steps = false;
  std::string profile;  ///< of integers and short floats: "small", "lanes"; else ""
  double bytes = 0;     ///< its share of the file beside the header
  double seconds = 0;   ///< in which it was decoded, where it was compared
  /// Whether error and energy are known: the source has such a tensor.
  bool compared = false;
  double error = 0;    ///< squared error over squares, of the decoded file; 0: exact
  double energy = 1;   ///< squares of the decoded file over the source's
  double squares = 0;  ///< of the source, where there is an error
  /// Whether a base has the tensor, of real numbers, so that the next two are known.
  bool in_base = false;
  double change_error = 0;  ///< squared error over `change`; 0: exact
  double change = 0;        ///< squares of the source minus the base

  std::int64_t elements() const noexcept;
  double bits() const noexcept {
    return elements() > 0 ? 8 * bytes / static_cast<double>(elements()) : 0;
  }
};

using TensorDecoder = std::function<std::vector<std::byte>(std::size_t index)>;

/// How the tensors of a file are stored, in its order; nothing is decoded or compared.
std::vector<StoredTensor> stored_tensors(const ArtifactReader& artifact);

/// The same, with errors against the tensors of those names that the file was made of. Ties
/// count as exact, unless the base has them.
/// @param decode  the bytes of a tensor by its index in the file, called by several threads where
///                tensors decode apart; without it, the decoder for files without layer types of
///                plugins, on `bases`
/// @param bases   of a delta: set in_base, change_error and change; else none
std::vector<StoredTensor> compare_with_source(const ArtifactReader& artifact,
                                              const TensorBundle& weights,
                                              const TensorDecoder& decode = {},
                                              std::span<const BaseModel> bases = {});

/// "warning: 2 of 40 tensors lost more than half of their energy (sum of squares): fc.weight keeps
/// 12 %, ..."; "" where none did.
std::string lost_energy_warning(const std::vector<StoredTensor>& tensors);

}  // namespace gbcompress
