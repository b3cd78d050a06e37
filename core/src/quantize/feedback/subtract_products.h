#pragma once
/// The inner loop of Cholesky factors, for the processor at hand. Each product is rounded by itself
/// and subtracted in a fixed order, so that all processors give the same bits.

#include <cstdint>

namespace gbcompress {

/// Sides of the squares that subtract_products() works on: a cache line of doubles.
constexpr std::int64_t kSquare = 8;

/// to[i][j] -= left[8 k + i] * right[8 k + j] for i, j < 8 and k = 0 ... depth - 1, in this
/// order.
void subtract_products(double* const* to, const double* left, const double* right,
                       std::int64_t depth);

}  // namespace gbcompress
