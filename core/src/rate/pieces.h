#pragma once
/// LibTorch's tensors in pieces (base/segments.h), by its threads.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/segments.h"
#include "rate/latent_numbers.h"

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

inline RangeRunner on_threads() {
  return [](std::int64_t n, std::int64_t grain,
            const std::function<void(std::int64_t, std::int64_t)>& body) {
    at::parallel_for(0, n, grain, body);
  };
}

/// Of a contiguous tensor of the host: LibTorch's own sums depend on the number of threads.
template <typename F>
double sum_pieces(const at::Tensor& dense, const F& f, std::int64_t longest = kPiece) {
  return sum_pieces(numbers_of(dense, 0, dense.numel()), on_threads(), f, longest);
}

template <typename F>
double sum_of(const at::Tensor& dense, const F& f) {
  return sum_of(numbers_of(dense, 0, dense.numel()), on_threads(), f);
}

}  // namespace gbcompress
