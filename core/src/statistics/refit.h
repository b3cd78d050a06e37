#pragma once
/// Weights fitted to the inputs that they get once the layers before them are rounded.

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "gbcompress/model.h"
#include "quantize/rounding/upper_factor.h"

namespace gbcompress {

/// Least squares between what a layer gave in the model as it was and what it gives now.
class Refit {
 public:
  /// @param model    as it was; only its values may change later
  /// @param samples  the first ones of them are used
  /// @param first    matrices whose inputs are kept, indices into model.tensors(), which
  ///                 LayerInputs sees, in the order in which they will be
  /// @param bytes    that inputs of the start may take, unless one matrix alone needs more
  Refit(Model& model, const Dataset& samples, std::vector<std::size_t> first,
        std::int64_t bytes = kKeptInputs);

  /// Whether the inputs that a matrix had at the start are in memory.
  bool keeps(std::size_t tensor) const { return originals_.contains(tensor); }
  /// Instead of others keeps those of this matrix and of as many after it as there is memory for.
  /// @param model  with the values of the start
  void keep(Model& model, std::size_t tensor);

  /// Moments of a matrix's inputs [k, n] in the model as it is now (H) and of those of the start
  /// with them (C).
  struct Moments {
    at::Tensor cross;                           ///< C - H, float64 [n, n]
    std::shared_ptr<const UpperFactor> factor;  ///< of H
    /// W + W (C - H) (H + damping)^-1, which has the least |W x - result x_now|^2.
    at::Tensor fitted(const at::Tensor& weights) const;
  };
  /// @param tensor  keeps() it
  Moments moments(Model& model, std::size_t tensor) const;

  static constexpr std::int64_t kKeptInputs = 256 << 20;

 private:
  using Body = std::function<void(std::size_t, const at::Tensor& inputs, std::int64_t most)>;
  void for_batches(const Body& body) const;
  std::int64_t rows_of(std::int64_t count) const;  ///< that are kept of so many samples

  Dataset samples_;
  std::vector<std::size_t> first_;
  std::int64_t most_bytes_;
  std::map<std::size_t, std::int64_t> bytes_;  ///< about, of all inputs of a matrix
  /// By matrix and batch: rows of its inputs, call by call.
  std::map<std::size_t, std::vector<std::vector<at::Tensor>>> originals_;
};

}  // namespace gbcompress
