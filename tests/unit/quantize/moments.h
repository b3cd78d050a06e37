#pragma once
/// Second moments made for tests.

#include <cstdint>
#include <vector>

#include "support/made_tensors.h"

namespace gbcompress::testing {

/// Moments [n, n] of `samples` correlated vectors.
inline std::vector<double> moments(std::int64_t n, std::int64_t samples, std::uint64_t seed) {
  const std::vector<float> mixed = normals(n * n, seed);
  const std::vector<float> drawn = normals(samples * n, seed + 1);
  std::vector<double> result(static_cast<std::size_t>(n * n)), x(static_cast<std::size_t>(n));
  for (std::int64_t s = 0; s < samples; ++s) {
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < n; ++k)
        sum += static_cast<double>(mixed[static_cast<std::size_t>(i * n + k)]) *
               static_cast<double>(drawn[static_cast<std::size_t>(s * n + k)]);
      x[static_cast<std::size_t>(i)] = sum;
    }
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        result[static_cast<std::size_t>(i * n + j)] +=
            x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(j)];
  }
  return result;
}

}  // namespace gbcompress::testing
