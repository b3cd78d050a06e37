#pragma once
/// Second-order statistics of weight matrices as plain data: whatever measured them, the same
/// statistics give the same integers (docs/guides/statistics.md).

#include <cstdint>
#include <functional>
#include <map>
#include <set>
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
  /// without data. In 0 ... 1.
  double row_power = 0;
  double joint_row_power = 1;  ///< the same where two matrices are rounded as one
  /// This part of each moment is replaced by the identity of the same mean diagonal: moments of few
  /// samples overstate how much the inputs depend on each other. In 0 ... 1.
  double shrinkage = 0;
  bool bias = true;  ///< input_mean: biases compensate for the mean error
  /// Entries whose moments are set aside.
  std::set<std::string, std::less<>> without_moments = {};
};

}  // namespace gbcompress
