#pragma once
/// Second-order statistics of a model's matrices, from some hundred training samples.

#include <cstdint>
#include <memory>
#include <vector>

#include "gbcompress/model.h"
#include "quantize/rounding/feedback.h"

namespace GBC_API gbcompress {
class Group;
}  // namespace gbcompress

namespace gbcompress {

struct SecondOrderStatistics {
  struct Tensor {
    double importance = 0;  ///< mean squared gradient by an element: Fisher information
    /// Of matrices whose moments were taken; factors are null where they were not.
    SecondOrder moments;
    bool seen = false;  ///< columns are from inputs, not from gradients
  };
  std::vector<Tensor> tensors;
  /// Matrices that were seen, in the order of their first use, but those of grouped convolutions
  /// and those too wide for moments; those of one group have the same rows of inputs.
  std::vector<std::vector<std::size_t>> groups;
  std::int64_t left_out = 0;  ///< moments that would have taken too much memory
};

/// Damping of moments, in means of their diagonals.
inline constexpr double kColumnDamp = 0.01, kRowDamp = 0.1;
/// Moments of wider matrices are not taken, nor more numbers of all together: 4 bytes each in
/// factors.
inline constexpr std::int64_t kWidest = 4096, kMostNumbers = 48 << 20;
/// Numbers of moments that are summed up together: 4 bytes each in each open sum, of which there
/// are five at most. More of them take more passes over the samples.
inline constexpr std::int64_t kMomentsAtOnce = 16 << 20;
/// Most rows of inputs by which a matrix is judged, of all samples together.
inline constexpr std::int64_t kInputRows = 1 << 15;

/// Moments over outputs and inputs of every matrix: of its inputs where LayerInputs sees them, of
/// gradients otherwise (embeddings, recurrent layers); over outputs always of gradients.
/// @param group  ranks that share the samples; null: one process. The result has the same bits for
///               any number of them [collective]
/// @param at_once  moments of a pass; the result has the same bits for any number of passes
/// @throws Error(kNonFinite) naming the tensor
SecondOrderStatistics second_order_statistics(Model& model, const Dataset& samples,
                                              std::uint64_t seed, Group* group = nullptr,
                                              std::int64_t at_once = kMomentsAtOnce);

/// A square tensor as moments.
std::shared_ptr<const UpperFactor> factor_of(const at::Tensor& moments, double damp);

}  // namespace gbcompress
