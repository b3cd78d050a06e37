#include "calibrate/feedback.h"

#include <algorithm>
#include <cmath>

#include "calibrate/add_scaled.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Rows that go side by side.
constexpr std::int64_t kBand = kOuterWidth;

class Feedback {
 public:
  Feedback(const IntegerGrid& grid, std::span<const float> values, const SecondOrder& model,
           const Rounding& rounding)
      : m_(grid.rows), n_(grid.cols), values_(values), model_(model), rounding_(rounding) {
    const auto numbers = static_cast<std::size_t>(n_);
    mean_square_ = model.mean_square();
    if (model.rows) lost_.resize(values.size());
    targets_.resize(numbers * kBand);
    shares_.resize(numbers * kBand);
    coded_.grid = grid;
    coded_.step = rounding.step;
    coded_.row_steps.assign(rounding.row_steps.begin(), rounding.row_steps.end());
    coded_.integers.resize(values.size());
  }

  void run() {
    if (rounding_.chooser) rounding_.chooser->begin(coded_.grid);
    for (std::int64_t first = 0; first < m_; first += kBand) {
      const std::int64_t count = std::min(kBand, m_ - first);
      take_shares(first, count);
      // The coder wants whole rows one after another; else a band of them is many times faster.
      if (rounding_.chooser)
        for (std::int64_t b = 0; b < count; ++b) pass<1>(first, b, 1);
      else
        pass<kBand>(first, 0, count);
    }
    if (rounding_.chooser) rounding_.chooser->end();
  }

  CodedValues take() { return std::move(coded_); }
  double loss() const { return loss_; }

 private:
  /// What rows before `first` have lost, as far as rows [first, first + count) make up for it.
  void take_shares(std::int64_t first, std::int64_t count) {
    if (!model_.rows) return;
    std::fill(shares_.begin(), shares_.end(), 0.0);
    for (std::int64_t k = 0; k < first; ++k) {
      const double* const factors = model_.rows->row(k) + first;
      const double* const lost = lost_.data() + k * n_;
      for (std::int64_t b = 0; b < count; ++b)
        add_scaled(shares_.data() + b * n_, lost, factors[b], n_);
    }
  }

  /// Rows first + offset + 0 ... count - 1 of the band, column after column; `Width` numbers of a
  /// column lie side by side.
  template <std::int64_t Width>
  void pass(std::int64_t first, std::int64_t offset, std::int64_t count) {
    double* const t = targets_.data();
    for (std::int64_t b = 0; b < Width; ++b)
      for (std::int64_t j = 0; j < n_; ++j)
        t[j * Width + b] =
            b < count ? static_cast<double>(values_[index(first + offset + b, j)]) : 0.0;
    double errors[Width] = {};
    for (std::int64_t j = 0; j < n_; ++j) {
      for (std::int64_t b = 0; b < count; ++b)
        errors[b] = round_one(first, offset + b, j, t[j * Width + b]);
      if (model_.columns) spread<Width>(errors, model_.columns->row(j), j + 1);
    }
  }

  template <std::int64_t Width>
  void spread(const double* errors, const double* factors, std::int64_t from) {
    double* const t = targets_.data();
    if constexpr (Width == 1) {
      if (errors[0] != 0) add_scaled(t + from, factors + from, errors[0], n_ - from);
    } else {
      add_outer(t + from * Width, factors + from, errors, n_ - from);
    }
  }

  /// @param target  the value with what columns before have lost
  /// @return the error of the number itself: value less what is stored
  double round_one(std::int64_t first, std::int64_t b, std::int64_t j, double target) {
    const std::int64_t i = first + b;
    double wanted = target;
    if (model_.rows) {
      wanted += shares_[static_cast<std::size_t>(b * n_ + j)];
      for (std::int64_t k = first; k < i; ++k)
        wanted += model_.rows->row(k)[i] * lost_[index(k, j)];
    }
    const std::size_t at = index(i, j);
    const int row_step = rounding_.row_steps.empty()
                             ? rounding_.step
                             : rounding_.step + rounding_.row_steps[static_cast<std::size_t>(i)];
    if (row_step != size_of_) {
      size_of_ = row_step;
      size_ = static_cast<double>(step_size(row_step));
    }
    const double scaled = wanted / size_;
    if (!(std::fabs(scaled) < kMaxMagnitude))
      throw Error(Errc::kNonFinite, "error feedback leaves the range of integers");
    // What a squared error here costs, now that numbers to come make up for it.
    const double root = (model_.rows ? model_.rows->diagonal(i) : 1) *
                        (model_.columns ? model_.columns->diagonal(j) : 1);
    const double cost = root * root;
    const std::int32_t k =
        rounding_.chooser ? rounding_.chooser->choose(scaled, rounding_.price * mean_square_ / cost)
                          : static_cast<std::int32_t>(std::nearbyint(scaled));
    coded_.integers[at] = k;
    const double stored = k * size_;
    if (model_.rows) lost_[at] = target - stored;
    loss_ += cost * (wanted - stored) * (wanted - stored);
    return static_cast<double>(values_[at]) - stored;
  }

  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * n_ + j);
  }

  std::int64_t m_, n_;
  std::span<const float> values_;
  const SecondOrder& model_;
  const Rounding& rounding_;
  std::vector<double> targets_;  ///< of the rows at hand, [cols, width]
  std::vector<double> shares_;   ///< [kBand, cols]
  /// With a factor of the rows: E R / R(j, j), [rows, cols].
  std::vector<double> lost_;
  CodedValues coded_;
  double loss_ = 0, size_ = 0, mean_square_ = 1;
  int size_of_ = kMinStep - 1;
};

}  // namespace

CodedValues round_with_feedback(const IntegerGrid& grid, std::span<const float> values,
                                const SecondOrder& model, const Rounding& rounding, double* loss) {
  if (grid.dependent || static_cast<std::int64_t>(values.size()) != grid.size() ||
      (model.columns && model.columns->size() != grid.cols) ||
      (model.rows && model.rows->size() != grid.rows) ||
      (!rounding.row_steps.empty() &&
       static_cast<std::int64_t>(rounding.row_steps.size()) != grid.rows))
    throw Error(Errc::kUsage, "second moments and steps must fit the matrix");
  Feedback feedback(grid, values, model, rounding);
  feedback.run();
  if (loss) *loss = feedback.loss();
  return feedback.take();
}

}  // namespace gbcompress
