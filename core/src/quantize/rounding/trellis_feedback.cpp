#include "quantize/rounding/trellis_feedback.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "codec/trellis/scale_classes.h"
#include "gbcompress/error.h"
#include "quantize/rounding/beam.h"
#include "quantize/rounding/spread_errors.h"

namespace gbcompress {
namespace {

/// How much more or less than the mean a squared error counts beside a bit.
constexpr double kLeastWeight = 1.0 / 4, kMostWeight = 4;

class TrellisFeedback {
 public:
  TrellisFeedback(const IntegerGrid& grid, std::span<const float> values,
                  const UpperFactor& columns, const ColumnOrder& order, const Rounding& rounding)
      : m_(grid.rows), n_(grid.cols), columns_(columns), order_(order), rounding_(rounding) {
    const double size = static_cast<double>(step_size(rounding.step));
    double mean = 0;
    for (std::int64_t j = 0; j < n_; ++j) {
      const double factor = column_factor(natural(j)), root = columns.diagonal(j) * factor;
      sizes_.push_back(static_cast<float>(size * factor));
      costs_.push_back(root * root * size * size);
      mean += costs_.back() / static_cast<double>(n_);
    }
    for (const double cost : costs_)
      weights_.push_back(static_cast<float>(std::clamp(cost / mean, kLeastWeight, kMostWeight)));
    for (std::int64_t i = 0; i < m_; ++i)
      row_factors_.push_back(
          rounding.row_steps.empty()
              ? 1.0
              : static_cast<double>(step_size(rounding.row_steps[static_cast<std::size_t>(i)])));
    result_.integers.resize(values.size());
    take(grid, values);
  }

  DependentIntegers run() {
    for (const ColumnGroup& group : order_.groups) {
      throw_if_interrupted();
      take_factors(group);
      errors_.resize(static_cast<std::size_t>(bands() * group.count * kBand));
      const std::int64_t blocks = (m_ + group.lines - 1) / group.lines;
      std::vector<DependentIntegers> sums(static_cast<std::size_t>(blocks));
      parallel_tasks(rounding_.threads, blocks, [&](std::int64_t block) {
        search(group, block * group.lines, std::min(m_, (block + 1) * group.lines),
               sums[static_cast<std::size_t>(block)]);
      });
      for (const DependentIntegers& sum : sums) {
        result_.loss += sum.loss;
        result_.error += sum.error;
      }
      if (group.first + group.count < n_) spread(group);
    }
    return std::move(result_);
  }

 private:
  std::int64_t bands() const { return (m_ + kBand - 1) / kBand; }
  std::int64_t natural(std::int64_t j) const { return order_.columns[static_cast<std::size_t>(j)]; }
  double column_factor(std::int64_t j) const {
    return rounding_.column_factors.empty() ? 1
                                            : rounding_.column_factors[static_cast<std::size_t>(j)];
  }
  /// Row i, place j of the order, in a band's part.
  std::size_t index(std::int64_t i, std::int64_t j, std::int64_t cols) const {
    return static_cast<std::size_t>((i / kBand * cols + j) * kBand + i % kBand);
  }

  /// Values over their rows' factors, in the order of the columns; and their scales.
  void take(const IntegerGrid& grid, std::span<const float> values) {
    std::vector<float> scaled(values.size());
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j < n_; ++j) {
        const auto at = static_cast<std::size_t>(i * n_ + j);
        scaled[at] =
            static_cast<float>(static_cast<double>(values[at]) /
                               (row_factors_[static_cast<std::size_t>(i)] * column_factor(j)));
      }
    scales_ = codec::scales_of(grid, scaled);
    values_.resize(static_cast<std::size_t>(bands() * n_ * kBand));
    for (std::int64_t i = 0; i < m_; ++i)
      for (std::int64_t j = 0; j < n_; ++j)
        values_[index(i, j, n_)] = static_cast<float>(
            static_cast<double>(values[static_cast<std::size_t>(i * n_ + natural(j))]) /
            row_factors_[static_cast<std::size_t>(i)]);
    targets_.assign(values_.begin(), values_.end());
  }

  void take_factors(const ColumnGroup& group) {
    factors_.assign(static_cast<std::size_t>(group.count * group.count), 0);
    for (std::int64_t k = 0; k < group.count; ++k) {
      const double* const row = columns_.row(group.first + k) + group.first;
      for (std::int64_t j = k + 1; j < group.count; ++j)
        factors_[static_cast<std::size_t>(k * group.count + j)] = static_cast<float>(row[j]);
    }
  }

  /// Integers and errors of rows [begin, end) in that group.
  void search(const ColumnGroup& group, std::int64_t begin, std::int64_t end,
              DependentIntegers& sums) {
    const auto count = static_cast<std::size_t>(group.count);
    const auto first = static_cast<std::size_t>(group.first);
    Beam beam({std::span(sizes_).subspan(first, count), std::span(weights_).subspan(first, count),
               std::span(costs_).subspan(first, count), factors_},
              paths_of(m_ * n_));
    std::vector<float> values(count), targets(count);
    std::vector<std::int8_t> classes(count);
    const int unit = codec::sixteenths(static_cast<double>(step_size(rounding_.step)));
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::size_t k = 0; k < count; ++k) {
        const std::int64_t j = group.first + static_cast<std::int64_t>(k);
        values[k] = values_[index(i, j, n_)];
        targets[k] = static_cast<float>(targets_[index(i, j, n_)]);
        classes[k] = values[k] == 0 ? std::int8_t{codec::kZeroPriced}
                                    : codec::scale_class(
                                          scales_.rows[static_cast<std::size_t>(i)],
                                          scales_.cols[static_cast<std::size_t>(natural(j))], unit);
      }
      const double factor = row_factors_[static_cast<std::size_t>(i)];
      beam.row(values, targets, classes, factor * factor);
    }
    const std::vector<std::int32_t> integers = beam.finish();
    sums.loss = beam.loss();
    codec::QuantizerState state(true);
    std::size_t next = 0;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::size_t k = 0; k < count; ++k, ++next) {
        const std::int64_t j = group.first + static_cast<std::int64_t>(k);
        const std::int32_t integer = integers[next];
        const double stored = 0.5 * state.twice(integer) * static_cast<double>(sizes_[first + k]);
        state.pass(integer);
        const double error = static_cast<double>(values_[index(i, j, n_)]) - stored;
        const double whole = error * row_factors_[static_cast<std::size_t>(i)];
        sums.error += whole * whole;
        errors_[index(i, static_cast<std::int64_t>(k), group.count)] = error;
        result_.integers[static_cast<std::size_t>(i * n_ + natural(j))] = integer;
      }
  }

  /// Adds the errors of a group to the columns that follow it.
  void spread(const ColumnGroup& group) {
    parallel_tasks(rounding_.threads, (bands() + kBands - 1) / kBands, [&](std::int64_t task) {
      const std::int64_t first = task * kBands, of_band = group.count * kBand;
      spread_errors(columns_, group.first, group.count, std::min(kBands, bands() - first),
                    targets_.data() + first * n_ * kBand, errors_.data() + first * of_band,
                    of_band);
    });
  }

  std::int64_t m_, n_;
  const UpperFactor& columns_;
  const ColumnOrder& order_;
  const Rounding& rounding_;
  std::vector<float> sizes_, weights_;  ///< of columns in their order
  std::vector<double> costs_;           ///< of squared errors, in steps
  std::vector<double> row_factors_;
  codec::Scales scales_;
  std::vector<float> values_;    ///< [bands, cols, kBand]
  std::vector<double> targets_;  ///< the same
  std::vector<float> factors_;   ///< of the group
  std::vector<double> errors_;   ///< [bands, columns of the group, kBand]
  DependentIntegers result_;
};

}  // namespace

std::size_t paths_of(std::int64_t numbers) noexcept {
  return numbers <= std::int64_t{1} << 22   ? Beam::kMostPaths
         : numbers <= std::int64_t{1} << 24 ? Beam::kMostPaths / 2
                                            : Beam::kMostPaths / 4;
}

DependentIntegers round_dependent(const IntegerGrid& grid, std::span<const float> values,
                                  const UpperFactor& columns, const ColumnOrder& order,
                                  const Rounding& rounding) {
  if (rounding.chooser || static_cast<std::int64_t>(values.size()) != grid.size() ||
      columns.size() != grid.cols || static_cast<std::int64_t>(order.columns.size()) != grid.cols ||
      (!rounding.row_steps.empty() &&
       static_cast<std::int64_t>(rounding.row_steps.size()) != grid.rows) ||
      (!rounding.column_factors.empty() &&
       static_cast<std::int64_t>(rounding.column_factors.size()) != grid.cols))
    throw Error(Errc::kUsage, "second moments and steps must fit the matrix");
  return TrellisFeedback(grid, values, columns, order, rounding).run();
}

}  // namespace gbcompress
