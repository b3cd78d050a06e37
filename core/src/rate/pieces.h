#pragma once
/// LibTorch's tensors in pieces (base/segments.h).

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/segments.h"

namespace gbcompress {

inline std::span<float> numbers_of(const at::Tensor& dense, std::int64_t first,
                                   std::int64_t count) {
  return {dense.data_ptr<float>() + first, static_cast<std::size_t>(count)};
}

/// Calls body(index, segment) for all, in parallel.
template <typename Body>
void for_segments(const std::vector<Segment>& segments, const Body& body) {
  at::parallel_for(0, static_cast<std::int64_t>(segments.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i)
                       body(static_cast<std::size_t>(i), segments[static_cast<std::size_t>(i)]);
                   });
}

/// Sum of f(numbers, index of their first) over the pieces of a tensor, or the `longest` first
/// numbers of each. In double and in one order: LibTorch's sums depend on the number of threads.
template <typename F>
double sum_pieces(const at::Tensor& dense, const F& f, std::int64_t longest = kPiece) {
  const std::int64_t n = dense.numel(), pieces = (n + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<std::size_t>(pieces));
  at::parallel_for(
      0, static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t first = i * kPiece;
          const std::span<const float> numbers =
              numbers_of(dense, first, std::min(longest, n - first));
          sums[static_cast<std::size_t>(i)] = f(numbers, static_cast<std::size_t>(first));
        }
      });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <typename F>
double sum_of(const at::Tensor& dense, const F& f) {
  return sum_pieces(dense, [&](std::span<const float> numbers, std::size_t) {
    double sum = 0;
    for (const float x : numbers) sum += f(static_cast<double>(x));
    return sum;
  });
}

/// Rounded to nearest, ties to even, in any number of lanes: adding this leaves no room for a
/// fraction. Beyond it numbers are too large for the coder anyway.
inline float whole(float x) {
  constexpr float kNoFraction = 0x1.8p23f;
  return x + kNoFraction - kNoFraction;
}

}  // namespace gbcompress
