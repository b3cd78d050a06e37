#pragma once
/// What a decoder knows of a value before it reads it: magnitudes in the column, the row and the
/// neighborhood, as logarithms of means; and where it lies.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/small/logistic.h"
#include "gbcompress/codec.h"

namespace gbcompress::codec {

inline constexpr int kFeatureCount = 12;
inline constexpr int kLogFeatures = 8;  ///< the first ones

/// Logarithms of mean magnitudes, units of 1/256.
struct View {
  std::array<int, kFeatureCount>
      features;  ///< column, columns around, row, near, all, link, wide, prior
  int left, left2, up, up_left, up_right, up2;  ///< decoded neighbors in the row; 0 outside
  int above;                                    ///< the same column of the row before
  int column_sign;                              ///< positive less negative values of the column
  int prior;
};

/// Mean magnitude of the rows of an earlier tensor: a neuron without inputs is not used either.
struct RowMagnitudes {
  std::vector<std::int64_t> sums;
  std::int64_t total = 0;
};

class Surroundings {
 public:
  /// @param links  of earlier tensors, latest last
  Surroundings(const IntegerGrid& grid, std::span<const RowMagnitudes> links);

  /// Of the next value in row-major order.
  View look(int prior) const;
  /// The next value is this one.
  void put(int value, int prior);

  RowMagnitudes take_rows() { return std::move(rows_); }
  std::int64_t rows() const { return row_count_; }
  std::int64_t cols() const { return cols_; }

 private:
  struct Mean {
    std::int64_t sum = 0;
    std::int64_t count = 0;
  };
  int at(std::int64_t col) const { return col < 0 ? 0 : current_[col]; }
  std::int64_t column(std::int64_t col) const {
    return col < 0 || col >= cols_ ? 0 : columns_[col];
  }
  std::int64_t columns_around(std::int64_t col) const;
  /// Magnitudes of the row around here, and how many.
  Mean wide() const;
  /// Features of columns that hold for the whole tensor: looked up for each of its values.
  void begin_columns(std::span<const RowMagnitudes> links);
  /// The same for a row.
  void begin_row();

  int log(std::int64_t x) const { return tables_.log(static_cast<std::uint64_t>(x)); }

  const Logistic& tables_ = Logistic::tables();
  std::int64_t row_count_, cols_, stride_;
  std::int64_t width_, height_;  ///< of the image that a row is
  std::int64_t row_ = 0, col_ = 0;
  Mean all_, run_;  ///< run_: the last kRun of a row without images
  std::int64_t row_sum_ = 0;
  std::vector<int> current_, previous_;  ///< rows of values
  std::vector<std::int64_t> columns_;    ///< sums of magnitudes
  std::vector<int> column_signs_;
  std::array<Mean, 16> priors_;
  struct Column {
    std::int16_t x, y;  ///< in the image, -256 ... 256
    std::int16_t link;  ///< of the row of an earlier tensor that the column follows
  };
  std::vector<Column> known_;
  int log_row_ = 0, log_around_ = 0;  ///< logarithms of how many values columns have
  RowMagnitudes rows_;
};

}  // namespace gbcompress::codec
