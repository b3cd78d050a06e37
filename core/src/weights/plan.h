#pragma once
/// Which tensor is stored how, and what steps a size or an error asks for.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "gbcompress/weights.h"
#include "weights/kinds.h"
#include "weights/matrix.h"

namespace GBC_INTERNAL gbcompress {

/// A tensor of the bundle and its place in the plan.
struct TensorPlan {
  const TensorEntry* source = nullptr;
  std::optional<std::size_t> tied;  ///< an earlier tensor of the same bytes
  WeightKind kind = WeightKind::kExact;
  bool constant = false;
  const TensorEntry* base = nullptr;  ///< integers are made of what changed since that
  bool unchanged = false;             ///< bit for bit what the base has
  bool broken = false;                ///< holds_non_numbers(), and should not
  // Of matrices:
  IntegerGrid grid;
  MatrixFacts facts;
  int axis = -1;            ///< of cosines that take its place; -1: none
  double share = 1;         ///< squares of its numbers over those that integers are made of
  double factor = 0;        ///< log2 of its step where x is 0
  int coarsest = kMaxStep;  ///< at which no more is lost than may be
  std::optional<StepMatrix> sample;

  std::int64_t elements() const noexcept;
  /// What integers are made of: its float32 numbers, or their cosines, or what changed.
  std::vector<float> numbers() const;
  /// Index of step_size() for log2 `x` of all steps.
  int step(double x) const noexcept;
};

class WeightsPlan {
 public:
  /// @throws Error(kNonFinite) naming the first tensor with NaN or infinity, but for masks and what
  ///         belongs to a training
  WeightsPlan(const TensorBundle& weights, const WeightsOptions& options);

  const std::vector<TensorPlan>& tensors() const noexcept { return tensors_; }
  std::int64_t matrix_numbers() const noexcept { return matrix_numbers_; }
  /// Of all tensors that are not tied.
  std::int64_t numbers() const noexcept { return numbers_; }
  /// Of all tensors that are stored as integers.
  CodecProfile profile() const noexcept { return profile_; }
  int threads() const noexcept { return threads_; }
  /// Between them lies everything that x changes.
  double lowest() const noexcept { return lowest_; }
  double highest() const noexcept { return highest_; }
  /// About the bytes that matrices take at x, from samples.
  double expected_bytes(double x) const;
  /// Where to look first for so many bits a number of matrices.
  double start(double bits) const;

 private:
  TensorPlan classify(const TensorEntry& source, const WeightsOptions& options) const;
  void find_ties();
  void take_samples();

  std::vector<TensorPlan> tensors_;
  std::int64_t matrix_numbers_ = 0, numbers_ = 0;
  CodecProfile profile_ = CodecProfile::kSmall;
  Quantiser quantiser_;
  double likely_error_ = 0;  ///< relative, of a matrix
  int threads_ = 1;
  double lowest_ = 0, highest_ = 0;
};

/// The float32 numbers of a tensor of a real type, else nothing.
std::vector<float> numbers_of(const TensorEntry& tensor);

/// Squared error over squares; where these are 0, 1 if there is an error.
double relative_error(std::span<const float> values, std::span<const float> stored);

/// Calls body(i) for 0 ... sizes.size() - 1 so that what is in memory at a time stays bounded:
/// small ones side by side, large ones alone. @param body  is told how many threads are its own
void for_bounded(const std::vector<std::int64_t>& sizes, int threads,
                 const std::function<void(std::size_t, int)>& body);

}  // namespace gbcompress
