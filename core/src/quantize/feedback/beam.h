#pragma once
/// A search for dependent integers whose errors move the numbers to come.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"
#include "codec/trellis/quantizer_state.h"
#include "codec/trellis/trellis_path.h"
#include "quantize/feedback/keep_least.h"

namespace GBC_INTERNAL gbcompress {

/// What the rows of one sequence have in common; [count] each.
struct BeamColumns {
  std::span<const float> sizes;    ///< step sizes
  std::span<const float> weights;  ///< of squared steps beside bits
  std::span<const double> costs;   ///< of squared steps, for the loss
  std::span<const float> factors;  ///< [count, count]: how the error of one moves a later one
};

/// The cheapest of the sequences that were followed so far: a fixed number of paths through the
/// states, each with the errors of its own in the row at hand. One path a state; the same for
/// every processor.
class Beam {
 public:
  static constexpr std::size_t kMostPaths = 64;
  /// Columns whose errors move those after them together.
  static constexpr std::size_t kBlock = 32;
  static constexpr std::size_t kLast = 512;

  /// @param paths  that are followed: 1 to kMostPaths; the time is in proportion
  Beam(const BeamColumns& columns, std::size_t paths);

  /// Follows the paths through one more row.
  /// @param values   as they are
  /// @param targets  with the errors of all columns before these
  /// @param classes  what bits cost: kLeastScaleClass ... kZeroScaleClass
  /// @param row_cost    the loss of this row counts so many times
  /// @param row_weight  squared steps of this row count so many times beside bits
  /// @throws Error(kNonFinite) for numbers beyond the range of integers
  void row(std::span<const float> values, std::span<const float> targets,
           std::span<const std::int8_t> classes, double row_cost, float row_weight = 1);
  /// What the integers of the last rows stand for on the path that is the cheapest so far, which a
  /// later row may leave.
  /// @param stored  becomes [rows, count]; at most kLast numbers or two rows, of those that row()
  /// had
  void last_rows(std::span<float> stored) const;
  /// Decides on the integers that were left open. Integers of all rows, one after another.
  std::vector<std::int32_t> finish();
  /// Sum of the squared errors in steps, each times what it costs.
  double loss() const { return loss_; }

 private:
  struct Path {
    float cost = 0;  ///< beside that of the cheapest, some rows ago
    double loss = 0;
    std::uint8_t state = 0;
  };
  struct Step {
    std::int32_t integer;
    std::uint8_t before;     ///< the path that it continues
    std::uint8_t quantizer;  ///< that the integer belongs to
  };
  struct Branch {
    float cost, error;  ///< error: of the target, in steps
    std::int32_t integer;
    std::uint8_t path, state;
  };

  void branch(std::size_t column, int scale, float row_weight);
  void choose();
  /// Follows the paths through the column. @param first  the first one of its block
  void column(std::size_t column, std::size_t first, std::size_t end, float value, double cost);
  /// Errors of a block's columns move those after it.
  void end_block(std::size_t first, std::size_t end);
  void decide(std::size_t open);

  const BeamColumns columns_;
  const std::size_t count_, most_;  ///< columns; paths
  std::vector<Path> paths_, next_;
  std::array<Branch, 2 * kMostPaths> branches_;   ///< the even and the odd one of each path
  std::array<std::int64_t, kMostKeys + 1> keys_;  ///< of branches that are followed
  std::size_t followed_ = 0;                      ///< so many
  /// Targets of the columns of a block, [paths, kBlock], and by turns, as those of all columns,
  /// [paths, count], which are those of where the block began.
  std::array<std::vector<float>, 2> near_, targets_;
  std::size_t turn_ = 0;                ///< of targets_
  std::vector<float> errors_;           ///< [kBlock, paths], of the block so far
  std::vector<Step> steps_;             ///< [open, paths]
  std::vector<std::int32_t> integers_;  ///< decided
  double loss_ = 0;
};

}  // namespace gbcompress
