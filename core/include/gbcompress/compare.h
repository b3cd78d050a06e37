#pragma once
/// Two sets of tensors side by side, and how their values are distributed. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "gbcompress/stored_tensor.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class ArtifactReader;

/// Named tensors of a model file or of a `.gbz`, whose bytes can be read. Copies share them.
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

// How the numbers of tensors are distributed, before and after. LibTorch-free.

inline constexpr std::size_t kHistogramBins = 32;

/// Bins of equal width from `low` to `high`: four standard deviations around the mean of the
/// original (of the file, where there is none), and no further than its values reach. What lies
/// beyond counts to the first or the last bin.
struct TensorHistogram {
  std::string name;
  double low = 0, high = 0;
  std::vector<std::int64_t> file;      ///< [kHistogramBins]
  std::vector<std::int64_t> original;  ///< [kHistogramBins], or empty: there is no such tensor
  std::int64_t not_finite = 0;         ///< NaN and infinities of both, which no bin counts
};

/// Of the tensors of real numbers with those names, in the file's order; of the original's only
/// those of the same shape.
/// @param original  or null
/// @throws as TensorSource::bytes()
std::vector<TensorHistogram> histograms(const TensorSource& file, const TensorSource* original,
                                        const std::unordered_set<std::string>& names);

}  // namespace gbcompress
