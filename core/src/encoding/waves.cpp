#include "encoding/waves.h"

#include <numbers>

namespace gbcompress {
namespace {

/// 1 + s x^2 / first! ... in Horner's form; the last term is below 1e-17 for x up to pi / 4.
double series(double square, std::int64_t first_factor) noexcept {
  // Factors of the factorial between one term and the next: cosine 1*2, 3*4, ...; sine 2*3, 4*5,
  // ...
  double sum = 1;
  for (std::int64_t k = 16 + first_factor; k >= first_factor; k -= 2)
    sum = 1 - square / static_cast<double>(k * (k + 1)) * sum;
  return sum;
}

}  // namespace

double cos_pi(std::int64_t numerator, std::int64_t denominator) noexcept {
  std::int64_t p = numerator % (2 * denominator);
  const std::int64_t q = denominator;
  if (p > q) p = 2 * q - p;
  const bool negative = 2 * p > q;
  if (negative) p = q - p;
  double result;
  if (4 * p <= q) {
    const double x = std::numbers::pi * (static_cast<double>(p) / static_cast<double>(q));
    result = series(x * x, 1);
  } else {
    const double x =
        std::numbers::pi * (static_cast<double>(q - 2 * p) / static_cast<double>(2 * q));
    result = x * series(x * x, 2);
  }
  return negative ? -result : result;
}

}  // namespace gbcompress
