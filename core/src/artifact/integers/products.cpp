#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "artifact/integers/products.cpp"
// Others would only add to the size of every program.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstring>
#include <vector>

#include "artifact/integers/products.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {

// Doubles of a register; Highway has none of WebAssembly (1.0.3).
#if HWY_TARGET == HWY_AVX2
constexpr std::size_t kWidth = 4;
#else
constexpr std::size_t kWidth = 2;
#endif
typedef double Wide __attribute__((vector_size(kWidth * sizeof(double))));

HWY_INLINE Wide LoadWide(const double* from) {
  Wide numbers;
  std::memcpy(&numbers, from, sizeof numbers);  // of any alignment
  return numbers;
}

/// Sums of a tile stay in registers.
constexpr std::size_t kRows = 4, kParts = 2, kColumns = kParts * kWidth;

/// Sums of kRows rows and kColumns columns. @param panel  [terms, kColumns]
template <typename Left>
HWY_INLINE void SumTile(const Left* const (&rows)[kRows], const double* panel, std::size_t terms,
                        Wide (&sums)[kRows][kParts]) {
  Wide s00{}, s01{}, s10{}, s11{}, s20{}, s21{}, s30{}, s31{};
  for (std::size_t b = 0; b < terms; ++b) {
    const Wide first = LoadWide(panel + kColumns * b);
    const Wide second = LoadWide(panel + kColumns * b + kWidth);
    const auto f0 = static_cast<double>(rows[0][b]), f1 = static_cast<double>(rows[1][b]);
    const auto f2 = static_cast<double>(rows[2][b]), f3 = static_cast<double>(rows[3][b]);
    s00 += f0 * first, s01 += f0 * second, s10 += f1 * first, s11 += f1 * second;
    s20 += f2 * first, s21 += f2 * second, s30 += f3 * first, s31 += f3 * second;
  }
  sums[0][0] = s00, sums[0][1] = s01, sums[1][0] = s10, sums[1][1] = s11;
  sums[2][0] = s20, sums[2][1] = s21, sums[3][0] = s30, sums[3][1] = s31;
}

/// Where fewer rows or columns are left, a tile computes some that are not stored.
template <typename Left, typename Right>
void Multiply(const Left* left, const Right* right, const ProductShape& shape, float* to) {
  std::vector<double> panel(shape.terms * kColumns);
  for (std::size_t c = 0; c < shape.columns; c += kColumns) {
    const std::size_t width = std::min(kColumns, shape.columns - c);
    for (std::size_t b = 0; b < shape.terms; ++b)
      for (std::size_t k = 0; k < width; ++k)
        panel[b * kColumns + k] = static_cast<double>(right[b * shape.columns + c + k]);
    for (std::size_t row = 0; row < shape.rows; row += kRows) {
      const Left* rows[kRows];
      for (std::size_t r = 0; r < kRows; ++r)
        rows[r] = left + std::min(row + r, shape.rows - 1) * shape.terms;
      Wide sums[kRows][kParts];
      SumTile(rows, panel.data(), shape.terms, sums);
      for (std::size_t r = 0; r < std::min(kRows, shape.rows - row); ++r)
        for (std::size_t k = 0; k < width; ++k)
          to[(row + r) * shape.columns + c + k] =
              static_cast<float>(sums[r][k / kWidth][k % kWidth]);
    }
  }
}

void MultiplyRight(const double* left, const float* right, const ProductShape& shape, float* to) {
  Multiply(left, right, shape, to);
}
void MultiplyLeft(const float* left, const double* right, const ProductShape& shape, float* to) {
  Multiply(left, right, shape, to);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(MultiplyRight);
HWY_EXPORT(MultiplyLeft);

void multiply_in_order(const double* left, const float* right, const ProductShape& shape,
                       float* to) {
  HWY_DYNAMIC_DISPATCH(MultiplyRight)(left, right, shape, to);
}
void multiply_in_order(const float* left, const double* right, const ProductShape& shape,
                       float* to) {
  HWY_DYNAMIC_DISPATCH(MultiplyLeft)(left, right, shape, to);
}

}  // namespace gbcompress
#endif
