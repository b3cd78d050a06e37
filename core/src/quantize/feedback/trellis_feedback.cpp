#include "quantize/feedback/trellis_feedback.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "codec/trellis/scale_classes.h"
#include "gbcompress/error.h"
#include "quantize/feedback/beam.h"
#include "quantize/feedback/later_factors.h"

namespace gbcompress {
namespace {

/// How much more or less than the mean a squared error counts beside a bit.
constexpr double kLeastWeight = 1.0 / 4, kMostWeight = 4;
/// What a squared error counts beside a bit, over what it does without feedback: the columns that
/// make up for it take more bits.
constexpr double kErrorWeight = 2;

class TrellisFeedback {
 public:
  TrellisFeedback(const IntegerGrid& grid, std::span<const float> values, const SecondOrder& model,
                  const ColumnOrder& order, const Rounding& rounding)
      : m_(grid.rows),
        n_(grid.cols),
        columns_(*model.columns),
        rows_(model.rows.get()),
        order_(order),
        rounding_(rounding) {
    const double size = static_cast<double>(step_size(rounding.step));
    double mean = 0;
    for (std::int64_t j = 0; j < n_; ++j) {
      const double factor = column_factor(natural(j)), root = columns_.diagonal(j) * factor;
      sizes_.push_back(static_cast<float>(size * factor));
      costs_.push_back(root * root * size * size);
      mean += costs_.back() / static_cast<double>(n_);
    }
    for (const double cost : costs_)
      weights_.push_back(static_cast<float>(kErrorWeight * rounding.weight *
                                            std::clamp(cost / mean, kLeastWeight, kMostWeight)));
    for (std::int64_t i = 0; i < m_; ++i)
      row_factors_.push_back(
          rounding.row_steps.empty()
              ? 1.0
              : static_cast<double>(step_size(rounding.row_steps[static_cast<std::size_t>(i)])));
    for (std::int64_t i = 0; i < m_; ++i) mean_row_cost_ += row_cost(i) / static_cast<double>(m_);
    result_.integers.resize(values.size());
    take(grid, values);
  }

  DependentIntegers run() {
    for (const ColumnGroup& group : order_.groups) {
      throw_if_interrupted();
      take_factors(group);
      errors_.resize(static_cast<std::size_t>(bands() * group.count * kBand));
      if (rows_) shares_.assign(static_cast<std::size_t>(m_ * group.count), 0);
      const std::int64_t blocks = (m_ + group.lines - 1) / group.lines;
      std::vector<DependentIntegers> sums(static_cast<std::size_t>(blocks));
      parallel_tasks(rows_ ? 1 : rounding_.threads, blocks, [&](std::int64_t block) {
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
              rounding_.paths > 0 ? rounding_.paths : paths_of(m_ * n_));
    OpenRows open{.beam = beam, .first = begin};
    std::vector<float> values(count), targets(count), shares(count);
    std::vector<std::int8_t> classes(count);
    const int unit = codec::sixteenths(static_cast<double>(step_size(rounding_.step)));
    for (std::int64_t i = begin; i < end; ++i) {
      if (rows_) take_shares(group, i, open, shares);
      for (std::size_t k = 0; k < count; ++k) {
        const std::int64_t j = group.first + static_cast<std::int64_t>(k);
        values[k] = values_[index(i, j, n_)];
        targets[k] = targets_[index(i, j, n_)] + shares[k];
        classes[k] = values[k] == 0 ? std::int8_t{codec::kZeroScaleClass}
                                    : codec::scale_class(
                                          scales_.rows[static_cast<std::size_t>(i)],
                                          scales_.cols[static_cast<std::size_t>(natural(j))], unit);
      }
      beam.row(values, targets, classes, row_cost(i), row_weight(i));
    }
    const std::vector<std::int32_t> integers = beam.finish();
    sums.loss = beam.loss();
    take_integers(group, begin, end, integers, sums);
    if (!rows_) return;
    for (std::int64_t i = open.first; i < end; ++i)
      pass_on(i, end, errors_of(group, i, stored_of(group, i)));
  }

  void take_integers(const ColumnGroup& group, std::int64_t begin, std::int64_t end,
                     const std::vector<std::int32_t>& integers, DependentIntegers& sums) {
    const auto count = static_cast<std::size_t>(group.count);
    const auto first = static_cast<std::size_t>(group.first);
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
        errors_[index(i, static_cast<std::int64_t>(k), group.count)] = static_cast<float>(error);
        result_.integers[static_cast<std::size_t>(i * n_ + natural(j))] = integer;
      }
  }

  // With a factor of the rows: what a row loses moves the rows to come. Integers of the last rows
  // are still open; until they are not, the path that is the cheapest so far tells what they lose.

  struct OpenRows {
    const Beam& beam;
    std::int64_t first;  ///< rows from here on have not been added to shares_
  };

  /// What the rows before leave to row i in the columns of the group.
  void take_shares(const ColumnGroup& group, std::int64_t i, OpenRows& open,
                   std::vector<float>& shares) {
    const auto count = static_cast<std::size_t>(group.count);
    const auto most = static_cast<std::int64_t>(
        std::max<std::size_t>(1, Beam::kLast / std::max<std::size_t>(count, 1) / 2));
    std::vector<float> stored(static_cast<std::size_t>(i - open.first) * count);
    open.beam.last_rows(stored);
    std::span<const float> rest = stored;
    if (i - open.first > most) {
      pass_on(open.first, i, errors_of(group, open.first, rest.first(count)));
      rest = rest.subspan(count);
      ++open.first;
    }
    const auto own = shares_.begin() + i * group.count;
    std::copy(own, own + group.count, shares.begin());
    for (std::int64_t k = open.first; k < i; ++k, rest = rest.subspan(count)) {
      const std::vector<float> of_row = errors_of(group, k, rest.first(count));
      const float factor = factor_between(k, i);
      for (std::size_t j = 0; j < count; ++j) shares[j] += factor * of_row[j];
    }
  }

  /// Of what row i loses, in the units of the rows' steps.
  float factor_between(std::int64_t i, std::int64_t later) const {
    return static_cast<float>(rows_->row(i)[later] * row_factors_[static_cast<std::size_t>(i)] /
                              row_factors_[static_cast<std::size_t>(later)]);
  }

  std::vector<float> stored_of(const ColumnGroup& group, std::int64_t i) const {
    std::vector<float> stored;
    for (std::int64_t k = 0; k < group.count; ++k)
      stored.push_back(values_[index(i, group.first + k, n_)] - errors_[index(i, k, group.count)]);
    return stored;
  }

  /// Errors of a row in each column of the group, those of the columns before added up.
  std::vector<float> errors_of(const ColumnGroup& group, std::int64_t i,
                               std::span<const float> stored) const {
    const std::size_t count = stored.size();
    std::vector<float> sums(count);
    for (std::size_t k = 0; k < count; ++k)
      sums[k] = targets_[index(i, group.first + static_cast<std::int64_t>(k), n_)] - stored[k];
    for (std::size_t k = 0; k < count; ++k) {
      const float error =
          values_[index(i, group.first + static_cast<std::int64_t>(k), n_)] - stored[k];
      const float* const factors = factors_.data() + k * count;
      for (std::size_t j = k + 1; j < count; ++j) sums[j] += factors[j] * error;
    }
    return sums;
  }

  /// Adds the errors of row i to the shares of the rows from `first` on.
  void pass_on(std::int64_t i, std::int64_t first, const std::vector<float>& errors) {
    for (std::int64_t later = first; later < m_; ++later) {
      const float factor = factor_between(i, later);
      float* const to = shares_.data() + static_cast<std::size_t>(later) * errors.size();
      for (std::size_t k = 0; k < errors.size(); ++k) to[k] += factor * errors[k];
    }
  }

  /// Cost of a squared error, in the unit of its row's step.
  double row_cost(std::int64_t i) const {
    const double root =
        row_factors_[static_cast<std::size_t>(i)] * (rows_ ? rows_->diagonal(i) : 1);
    return root * root;
  }
  float row_weight(std::int64_t i) const {
    return rows_ ? static_cast<float>(
                       std::clamp(row_cost(i) / mean_row_cost_, kLeastWeight, kMostWeight))
                 : 1;
  }

  /// Adds the errors of a group to the columns that follow it.
  void spread(const ColumnGroup& group) {
    const LaterFactors factors(columns_, group.first, group.count, rounding_.threads);
    parallel_tasks(rounding_.threads, (bands() + kBands - 1) / kBands, [&](std::int64_t task) {
      const std::int64_t first = task * kBands, of_band = group.count * kBand;
      factors.spread(std::min(kBands, bands() - first), targets_.data() + first * n_ * kBand,
                     errors_.data() + first * of_band, of_band);
    });
  }

  std::int64_t m_, n_;
  const UpperFactor& columns_;
  const UpperFactor* const rows_;  ///< or null
  const ColumnOrder& order_;
  const Rounding& rounding_;
  std::vector<float> sizes_, weights_;  ///< of columns in their order
  std::vector<double> costs_;           ///< of squared errors, in steps
  std::vector<double> row_factors_;
  double mean_row_cost_ = 0;
  codec::Scales scales_;
  std::vector<float> values_;    ///< [bands, cols, kBand]
  std::vector<float> targets_;   ///< the same
  std::vector<float> factors_;   ///< of the group
  std::vector<float> errors_;    ///< [bands, columns of the group, kBand]
  std::vector<float> shares_;    ///< with a factor of the rows: [rows, columns of the group]
  DependentIntegers result_;
};

}  // namespace

std::size_t paths_of(std::int64_t numbers) noexcept {
  return numbers <= std::int64_t{1} << 22 ? 16 : numbers <= std::int64_t{1} << 24 ? 8 : 4;
}

DependentIntegers round_dependent(const IntegerGrid& grid, std::span<const float> values,
                                  const SecondOrder& model, const ColumnOrder& order,
                                  const Rounding& rounding) {
  if (static_cast<std::int64_t>(values.size()) != grid.size() || !model.columns ||
      model.columns->size() != grid.cols || (model.rows && model.rows->size() != grid.rows) ||
      static_cast<std::int64_t>(order.columns.size()) != grid.cols ||
      (!rounding.row_steps.empty() &&
       static_cast<std::int64_t>(rounding.row_steps.size()) != grid.rows) ||
      (!rounding.column_factors.empty() &&
       static_cast<std::int64_t>(rounding.column_factors.size()) != grid.cols))
    throw Error(Errc::kUsage, "second moments and steps must fit the matrix");
  return TrellisFeedback(grid, values, model, order, rounding).run();
}

}  // namespace gbcompress
