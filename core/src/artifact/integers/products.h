#pragma once
/// Products of matrices whose terms are summed in their order, so that every processor has the same
/// bits: docs/reference/artifact-integers.md, "Cosines".

#include <cstddef>

namespace gbcompress {

/// to[r, c] = sum over b of left[r, b] * right[b, c], b ascending, in double.
struct ProductShape {
  std::size_t rows, terms, columns;
};
void multiply_in_order(const double* left, const float* right, const ProductShape& shape,
                       float* to);
void multiply_in_order(const float* left, const double* right, const ProductShape& shape,
                       float* to);

}  // namespace gbcompress
