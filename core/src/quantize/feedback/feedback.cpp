#include "quantize/feedback/feedback.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/feedback/later_factors.h"

namespace gbcompress {
namespace {

/// Columns whose errors are added to all later columns at once, so that these are read once.
constexpr std::int64_t kColumns = 64;

class Feedback {
 public:
  Feedback(const IntegerGrid& grid, std::span<const float> values, const SecondOrder& model,
           const Rounding& rounding)
      : m_(grid.rows), n_(grid.cols), values_(values), model_(model), rounding_(rounding) {
    if (model.rows) errors_.resize(values.size());
    for (std::int64_t i = 0; i < m_; ++i)
      sizes_.push_back(static_cast<double>(step_size(
          rounding.step +
          (rounding.row_steps.empty() ? 0 : rounding.row_steps[static_cast<std::size_t>(i)]))));
    coded_.grid = grid;
    coded_.step = rounding.step;
    coded_.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
    coded_.integers.resize(values.size());
  }

  void run() {
    const std::int64_t bands = (m_ + kBand - 1) / kBand;
    losses_.resize(static_cast<std::size_t>(bands));
    if (!model_.rows) {
      parallel_tasks(rounding_.threads, (bands + kBands - 1) / kBands, [&](std::int64_t group) {
        throw_if_interrupted();
        const std::int64_t first = group * kBands, count = std::min(kBands, bands - first);
        std::vector<float> targets(static_cast<std::size_t>(count * n_ * kBand));
        pass_bands(first, count, targets.data());
      });
      return;
    }
    std::vector<float> targets(static_cast<std::size_t>(n_ * kBand));
    shares_.resize(targets.size());
    for (std::int64_t band = 0; band < bands; ++band) {
      const std::int64_t count = rows_of(band);
      take_shares(band * kBand, count);
      pass_bands(band, 1, targets.data());
    }
  }

  CodedValues take() { return std::move(coded_); }
  double loss() const {
    double sum = 0;
    for (const double loss : losses_) sum += loss;
    return sum;
  }

 private:
  std::int64_t rows_of(std::int64_t band) const { return std::min(kBand, m_ - band * kBand); }

  /// Errors of the rows before `first`, as far as rows [first, first + count) compensate for them.
  void take_shares(std::int64_t first, std::int64_t count) {
    if (!model_.rows) return;
    std::fill(shares_.begin(), shares_.end(), 0.0);
    for (std::int64_t k = 0; k < first; ++k) {
      const double* const factors = model_.rows->row(k) + first;
      const double* const errors = errors_.data() + k * n_;
      for (std::int64_t b = 0; b < count; ++b)
        add_scaled(shares_.data() + b * n_, errors, factors[b], n_);
    }
  }

  /// `count` bands from `first` on, column after column; t has [cols, kBand] for each.
  void pass_bands(std::int64_t first, std::int64_t count, float* t) {
    const std::int64_t size = n_ * kBand;  // of a band's part of t
    for (std::int64_t band = 0; band < count; ++band)
      for (std::int64_t b = 0; b < kBand; ++b)
        for (std::int64_t j = 0; j < n_; ++j)
          t[band * size + j * kBand + b] =
              b < rows_of(first + band) ? values_[index((first + band) * kBand + b, j)] : 0.f;
    std::vector<float> factors(static_cast<std::size_t>(kColumns * kColumns));
    std::vector<float> errors(static_cast<std::size_t>(count * kColumns * kBand));
    for (std::int64_t begin = 0; begin < n_; begin += kColumns) {
      const std::int64_t end = std::min(begin + kColumns, n_);
      for (std::int64_t j = begin; model_.columns && j < end; ++j)
        for (std::int64_t k = j + 1; k < end; ++k)
          factors[static_cast<std::size_t>((j - begin) * kColumns + k - begin)] =
              static_cast<float>(model_.columns->row(j)[k]);
      for (std::int64_t band = 0; band < count; ++band)
        round_columns(first + band, begin, end, t + band * size,
                      errors.data() + band * kColumns * kBand, factors);
      if (model_.columns)
        LaterFactors(*model_.columns, begin, end - begin)
            .spread(count, t, errors.data(), kColumns * kBand);
    }
  }

  /// Columns [begin, end) of a band, whose errors are added to those that follow among them.
  /// @param factors  of the columns, [kColumns, kColumns]
  void round_columns(std::int64_t band, std::int64_t begin, std::int64_t end, float* t,
                     float* errors, std::span<const float> factors) {
    for (std::int64_t j = begin; j < end; ++j) {
      float* const own = errors + (j - begin) * kBand;
      for (std::int64_t b = 0; b < rows_of(band); ++b)
        own[b] = static_cast<float>(
            round_one(band * kBand, b, j, static_cast<double>(t[j * kBand + b])));
      if (model_.columns)
        add_outer(t + (j + 1) * kBand, factors.data() + (j - begin) * kColumns + (j + 1 - begin),
                  own, end - j - 1);
    }
  }

  /// @param target  the value with the errors of the columns before
  /// @return the error of the weight itself: value minus what is stored
  double round_one(std::int64_t first, std::int64_t b, std::int64_t j, double target) {
    const std::int64_t i = first + b;
    double wanted = target;
    if (model_.rows) {
      wanted += shares_[static_cast<std::size_t>(b * n_ + j)];
      for (std::int64_t k = first; k < i; ++k)
        wanted += model_.rows->row(k)[i] * errors_[index(k, j)];
    }
    const std::size_t at = index(i, j);
    double size = sizes_[static_cast<std::size_t>(i)];
    if (!rounding_.column_factors.empty())
      size *= rounding_.column_factors[static_cast<std::size_t>(j)];
    // Zeros stay zeros: they compensate for nothing.
    const double scaled = values_[at] == 0 ? 0 : wanted / size;
    if (!(std::fabs(scaled) < kMaxMagnitude))
      throw Error(Errc::kNonFinite, "error feedback leaves the range of integers");
    // Cost of a squared error here, now that later weights compensate for it.
    const double root = (model_.rows ? model_.rows->diagonal(i) : 1) *
                        (model_.columns ? model_.columns->diagonal(j) : 1);
    const double cost = root * root;
    const auto k = static_cast<std::int32_t>(std::nearbyint(scaled));
    coded_.integers[at] = k;
    const double stored = k * size;
    if (model_.rows) errors_[at] = target - stored;
    losses_[static_cast<std::size_t>(first / kBand)] +=
        cost * (wanted - stored) * (wanted - stored);
    return static_cast<double>(values_[at]) - stored;
  }

  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * n_ + j);
  }

  std::int64_t m_, n_;
  std::span<const float> values_;
  const SecondOrder& model_;
  const Rounding& rounding_;
  std::vector<double> sizes_;   ///< steps of rows
  std::vector<double> shares_;  ///< with a factor of the rows: [kBand, cols]
  /// With a factor of the rows: E R / R(j, j), [rows, cols].
  std::vector<double> errors_;
  std::vector<double> losses_;  ///< of each band
  CodedValues coded_;
};

}  // namespace

CodedValues round_with_feedback(const IntegerGrid& grid, std::span<const float> values,
                                const SecondOrder& model, const Rounding& rounding, double* loss) {
  if (grid.dependent || static_cast<std::int64_t>(values.size()) != grid.size() ||
      (model.columns && model.columns->size() != grid.cols) ||
      (model.rows && model.rows->size() != grid.rows) ||
      (!rounding.row_steps.empty() &&
       static_cast<std::int64_t>(rounding.row_steps.size()) != grid.rows) ||
      (!rounding.column_factors.empty() &&
       static_cast<std::int64_t>(rounding.column_factors.size()) != grid.cols))
    throw Error(Errc::kUsage, "second moments and steps must fit the matrix");
  Feedback feedback(grid, values, model, rounding);
  feedback.run();
  if (loss) *loss = feedback.loss();
  return feedback.take();
}

}  // namespace gbcompress
