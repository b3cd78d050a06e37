#pragma once
/// Second-order statistics of weight matrices as plain data: whatever measured them, the same
/// statistics give the same integers (docs/guides/calibrate.md).

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Of a weight whose first dimension counts outputs: [out, ...], `in` elements per output. Each
/// member may be empty; moments are symmetric and positive semidefinite, in any scale.
struct TensorStatistics {
  /// Blocks of input_moment; above 1 for a grouped convolution, whose outputs are divided evenly.
  std::int64_t groups = 1;
  std::vector<float> input_moment;    ///< E[x xT], [groups, in, in]
  std::vector<float> output_moment;   ///< E[g gT] of the gradients by the outputs, [out, out]
  std::vector<float> input_mean;      ///< E[x], [groups, in]
  std::vector<float> row_importance;  ///< squared gradient of a row's weights, summed, [out]; >= 0
};

/// By the tensor's name. A name of the form "A|B" is of two matrices with the same rows that are
/// rounded as one, [A B]: its moment is that of both inputs together, and it has no other members.
struct Statistics {
  std::map<std::string, TensorStatistics, std::less<>> tensors;
};

/// @param file  tensors NAME.input_moment [in, in] or [groups, in, in], NAME.output_moment
///              [out, out], NAME.input_mean [in] or [groups, in], NAME.row_importance [out], of
///              real numbers
/// @throws Error(kUsage) naming a tensor that is none of these; Error(kShapeMismatch) for one of
///         another form; Error(kNonFinite) for NaN, infinity, a negative importance
Statistics read_statistics(const TensorBundle& file);

/// How compress_weights() uses statistics.
struct StatisticsUse {
  bool feedback = true;      ///< moments: the error of a weight moves later ones
  bool two_sided = true;     ///< output_moment beside input_moment: along its column, too
  bool tensor_steps = true;  ///< importance: sensitive tensors have finer steps
  /// Importance of rows: steps proportional to its power of -row_power / 2; 0: by magnitude, as
  /// without data. In 0 ... 1; 1 is right where importance is known exactly.
  double row_power = 0.5;
  double joint_row_power = 1;  ///< the same where two matrices are rounded as one
  /// This part of each moment is replaced by the identity of the same mean diagonal: moments of few
  /// samples overstate how much the inputs depend on each other. In 0 ... 1.
  double shrinkage = 0;
  bool bias = true;  ///< input_mean: biases compensate for the mean error
  /// Entries whose moments are set aside.
  std::set<std::string, std::less<>> without_moments = {};
};

/// Inputs of a matrix [out, ...], `in` elements per output, in a model whose layers before it are
/// quantized (x), and in the original model (x0).
struct SequentialInputs {
  std::vector<float> moment;             ///< E[x xT], [in, in]
  std::vector<float> cross;              ///< E[(x0 - x) xT], [in, in]
  std::vector<float> mean, mean_before;  ///< E[x], E[x0], [in]
};

/// A model whose layers are quantized one after another, each for the inputs that the quantized
/// layers before it give. All calls come from one thread, which need not be the caller's of
/// compress_weights().
class SequentialModel {
 public:
  virtual ~SequentialModel() = default;
  /// Names of matrices in the order in which inputs reach them; those of one group have the same
  /// inputs. Matrices of which the statistics know no input_moment may be among them.
  virtual std::vector<std::vector<std::string>> groups() = 0;
  /// All tensors are those of the original model.
  virtual void begin() = 0;
  /// @param values  of a tensor as the file has it
  virtual void put(const std::string& name, std::span<const float> values) = 0;
  /// @param name  the first of a group
  virtual SequentialInputs inputs(const std::string& name) = 0;
};

}  // namespace gbcompress
