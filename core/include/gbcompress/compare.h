#pragma once
/// Two sets of tensors side by side: what each file stores, and how far their numbers are apart.
/// LibTorch-free.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

/// Named tensors of a model file or of a `.gbz`, whose bytes can be asked for. Copies share them.
class TensorSource {
 public:
  /// Tensors that are stored as they are.
  static TensorSource of(TensorBundle tensors);
  /// @param decode  as of compare_with_source()
  static TensorSource of(ArtifactReader artifact, TensorDecoder decode = {});

  /// How each is stored, in the file's order; nothing is compared.
  const std::vector<StoredTensor>& tensors() const noexcept;
  /// Row-major and little-endian, in the tensor's own element type.
  /// @throws as the decoder
  std::vector<std::byte> bytes(std::size_t index) const;
  /// Whether bytes() may be called by several threads at once.
  bool parallel() const noexcept;
  /// Of the files that hold the tensors.
  std::int64_t file_bytes() const noexcept;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// One name, in one source or in both.
struct ComparedTensor {
  std::string name;
  std::optional<StoredTensor> a, b;  ///< unset: that source has no such tensor
  bool same = false;                 ///< in element type, shape and every bit
  /// Of real numbers of one shape, whatever their element types, as float32: squared difference
  /// over A's squares (where these are 0: 1, if there is a difference), and B's squares over A's.
  /// NaN where an infinity or NaN is involved.
  std::optional<double> error, energy;

  bool same_shape() const { return a && b && a->shape == b->shape; }
  bool same_dtype() const { return a && b && a->dtype == b->dtype; }
};

struct Comparison {
  std::vector<ComparedTensor> tensors;  ///< in A's order, then what B has alone
  /// Squared difference of all tensors that have an error, over A's squares of them.
  double total_error = 0;
  std::int64_t same = 0, differ = 0;  ///< of tensors that both have
  std::int64_t only_a = 0, only_b = 0;
  std::int64_t other_shape = 0, other_dtype = 0;  ///< among `differ`
};

/// @throws as TensorSource::bytes()
Comparison compare_tensors(const TensorSource& a, const TensorSource& b);

}  // namespace gbcompress
