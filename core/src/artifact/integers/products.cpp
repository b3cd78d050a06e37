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

#include "artifact/integers/products.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {

constexpr std::size_t kRows = 4, kBlock = 256;  // sums in the first cache

// Loops that compilers turn into vectors of the level's width. Where fewer rows are left, the last
// one is computed again.
template <typename Left, typename Right>
void Block(const Left* left, const Right* right, const ProductShape& shape, std::size_t row,
           std::size_t width, float* to) {
  double sums[kRows][kBlock] = {};
  std::size_t rows[kRows];
  for (std::size_t r = 0; r < kRows; ++r) rows[r] = std::min(row + r, shape.rows - 1);
  for (std::size_t b = 0; b < shape.terms; ++b) {
    const Right* const line = right + b * shape.columns;
    double factors[kRows];
    for (std::size_t r = 0; r < kRows; ++r)
      factors[r] = static_cast<double>(left[rows[r] * shape.terms + b]);
    for (std::size_t c = 0; c < width; ++c) {
      const auto number = static_cast<double>(line[c]);
      for (std::size_t r = 0; r < kRows; ++r) sums[r][c] += factors[r] * number;
    }
  }
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < width; ++c)
      to[rows[r] * shape.columns + c] = static_cast<float>(sums[r][c]);
}

template <typename Left, typename Right>
void Multiply(const Left* left, const Right* right, const ProductShape& shape, float* to) {
  for (std::size_t c = 0; c < shape.columns; c += kBlock)
    for (std::size_t r = 0; r < shape.rows; r += kRows)
      Block(left, right + c, shape, r, std::min(kBlock, shape.columns - c), to + c);
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
