#pragma once
/// How each tensor is stored, and the step sizes for a target size or error.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "artifact/relatives.h"
#include "base/glob.h"
#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "gbcompress/weights.h"
#include "quantize/allocation/owned_statistics.h"
#include "quantize/feedback/rounding_model.h"
#include "quantize/levels.h"
#include "quantize/matrix.h"
#include "quantize/roles.h"

namespace GBC_INTERNAL gbcompress {

/// Entropy of a Gaussian number of deviation 1 at a step of 1, bits.
inline constexpr double kGaussianBits = 2.047;

/// A tensor of the bundle and its place in the allocation.
struct TensorAllocation {
  const TensorEntry* source = nullptr;
  std::optional<std::size_t> tied;  ///< an earlier tensor of the same bytes
  WeightKind kind = WeightKind::kExact;
  bool constant = false;
  const TensorEntry* before = nullptr;  ///< the base's, of the same name
  const TensorEntry* base = nullptr;    ///< `before`, where integers are made of what changed
  bool unchanged = false;               ///< bit for bit what a base has
  TensorMatch match;                    ///< where everything is exact: what it may be made of
  std::optional<NotFinite> not_finite;  ///< values that are none
  bool packed = false;                  ///< scales packed weights
  /// Of few values: where the tensor is exact, perhaps the smallest form; else one that
  /// prefer_exact() compares with integers times a step.
  std::shared_ptr<const LevelTable> levels;
  // Of matrices:
  IntegerGrid grid;
  MatrixFacts facts;
  int axis = -1;  ///< of cosines that take its place; -1: none
  /// Least squares of the change of this tensor and of those tied to it, over the squares of what
  /// integers are made of: at most 1, and 1 for tensors that the base lacks.
  double share = 1;
  std::int64_t slices = 1;  ///< matrices that its rows are a stack of
  bool multiplied = false;  ///< of a table: known to be more than one of rows to look up
  double factor = 0;        ///< log2 of its step where x is 0
  int coarsest = kMaxStep;  ///< at which no more is lost than may be
  std::optional<StepMatrix> sample;
  /// Of matrices with statistics or likely inputs: rounding with error feedback; null for the
  /// second of a pair.
  std::shared_ptr<const RoundingModel> model;
  std::optional<double> max_error;  ///< its own (WeightsOptions::targets)
  std::optional<int> own_step;      ///< of its own error or size, about; else steps follow x
  bool assumed = false;  ///< the graph makes its inputs likely
  bool second = false;   ///< rounded as one with an earlier matrix
  bool rows_apart = false;  ///< rows may have steps of their own

  std::int64_t elements() const noexcept;
  /// What integers are made of: its float32 numbers, or their cosines, or what changed.
  std::vector<float> numbers() const;
  /// Index of step_size() for log2 `x` of all steps.
  int step(double x) const noexcept;
  /// What the step that is asked for has beside step(x), squared: what a squared step counts beside
  /// a bit, so that sizes between two steps are reached.
  double weight(double x) const noexcept;
};

class BitAllocation {
 public:
  /// @param layers  of a file with layers: the base is its draft
  BitAllocation(const TensorBundle& weights, const WeightsOptions& options, bool layers = false);

  const std::vector<TensorAllocation>& tensors() const noexcept { return tensors_; }
  std::int64_t matrix_numbers() const noexcept { return matrix_numbers_; }
  /// Of all tensors that are not tied.
  std::int64_t numbers() const noexcept { return numbers_; }
  /// Of all tensors that are stored as integers.
  CodecProfile profile() const noexcept { return profile_; }
  /// What a user should know of tensors that are exact without a rule.
  std::vector<std::string> notes() const;
  int threads() const noexcept { return threads_; }
  /// Between them lies everything that x changes.
  double lowest() const noexcept { return lowest_; }
  double highest() const noexcept { return highest_; }
  /// Approximate bytes of each tensor that is a matrix at x, from samples; 0 of others.
  std::vector<double> expected_bytes(double x) const;
  /// Where the search starts for so many bits per weight of matrices.
  double start(double bits) const;

 private:
  /// Where everything is exact. @return whether nothing else is to be known of the tensor
  bool match_exactly(TensorAllocation& tensor) const;
  static bool match_namesake(TensorAllocation& tensor, const TensorEntry* before);
  /// @param i  place of the tensor
  TensorAllocation classify(std::size_t i, const TensorEntry& source, const WeightsOptions& options,
                            const GlobSet& exact, bool packed) const;
  void prefer_exact(const WeightsOptions& options);
  void find_ties(const TensorBundle& weights);
  void bound_changes(const WeightsOptions& options);
  void assume_inputs();
  void use_statistics(const WeightsOptions& options);
  void balance(const WeightsOptions& options);
  void follow_far_sizes();
  void refine_heads();
  void take_samples();
  void own_steps(const WeightsOptions& options);
  void round_alone(TensorAllocation& tensor);

  const TensorFinder finder_;
  const TensorHints hints_;
  const bool predicts_tokens_;
  const OwnedStatistics measured_;  ///< empty without WeightsOptions::statistics
  std::vector<TensorAllocation> tensors_;
  std::int64_t matrix_numbers_ = 0, numbers_ = 0;
  CodecProfile profile_ = CodecProfile::kSmall;
  Quantizer quantizer_;
  double likely_error_ = 0;  ///< relative, of a matrix
  int threads_ = 1;
  double lowest_ = 0, highest_ = 0;
  /// Of profile lanes: bits of the samples by the index of their step, as far as they are known.
  mutable std::vector<std::map<int, double>> sampled_bits_;
};

/// Whether every tensor is stored exactly.
inline bool is_exact(const WeightsOptions& options) noexcept {
  return !options.max_bytes && !options.max_error;
}

/// The same tensors, of which equal ones share their bytes and are stored once: not one that is to
/// be exact with one that is not.
TensorBundle with_equal_shared(TensorBundle weights, const WeightsOptions& options);

/// The name of the tensor that a slice belongs to; else its own.
inline const std::string& whole_name(const TensorEntry& tensor) noexcept {
  return tensor.whole.empty() ? tensor.name : tensor.whole;
}

/// What is asked of a matrix by its name; or null.
const TensorTarget* target_of(const WeightsOptions& options, const std::string& name);
const TensorTarget* target_of(const WeightsOptions& options, const TensorEntry& tensor);

/// Whether a tensor is no numbers, but a container.
bool is_bytes(const TensorEntry& tensor) noexcept;

/// The float32 numbers of a tensor of a real type, else nothing.
std::vector<float> numbers_of(const TensorEntry& tensor);

/// Squared error over squares; where these are 0, 1 if there is an error.
double relative_error(std::span<const float> values, std::span<const float> stored);

/// bounded_tasks() of tensors so that what is in memory at a time stays bounded. Stops where the
/// user interrupts. @param body  gets its number of threads
void for_bounded(const std::vector<std::int64_t>& sizes, int threads,
                 const std::function<void(std::size_t, int)>& body);

}  // namespace gbcompress
