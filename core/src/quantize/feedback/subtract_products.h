#pragma once
/// The inner loop of Cholesky factors, for the processor at hand. Each product is rounded by itself
/// and subtracted in a fixed order, so that all processors give the same bits.

#include <cstdint>

namespace gbcompress {

/// Sides of the squares that subtract_products() works on.
constexpr std::int64_t kSquare = 16;

/// to[i][j] -= left[16 k + i] * right[16 k + j] for i, j < 16 and k = 0 ... depth - 1, in this
/// order.
void subtract_products(double* const* to, const double* left, const double* right,
                       std::int64_t depth);

}  // namespace gbcompress
