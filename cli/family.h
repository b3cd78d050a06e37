#pragma once
/// Models of one call that are stored as exact changes since each other.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/base_model.h"

namespace gbcompress::cli {

/// What a model is stored as the change since.
struct FamilyBases {
  std::vector<std::string> paths;  ///< their inputs; none: it is stored whole
  std::int64_t saved_bytes = 0;    ///< of its file, about
};

class Family {
 public:
  explicit Family(const Arguments& arguments) : arguments_(arguments) {}

  /// The earlier models that `input` is stored as the change since.
  FamilyBases bases_of(const std::string& input) const;
  /// Whether a model has tensors that were quantized from others, which have to be stored before.
  bool holds_blocks(const std::string& input) const;
  /// The models of bases_of(), which need not be opened again.
  std::vector<BaseModel> models_of(const std::vector<std::string>& paths) const;
  /// Takes a model whose file was written.
  /// @param digest  of its tensors, which the file states
  /// @param bases   that the file is the change since
  void add(const std::string& input, TensorBundle tensors, std::string digest,
           std::span<const BaseModel> bases);

 private:
  const Arguments& arguments_;
  std::vector<EarlierModel> models_;
  std::vector<std::string> paths_;  ///< of their inputs
};

}  // namespace gbcompress::cli
