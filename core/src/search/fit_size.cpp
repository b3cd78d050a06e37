#include "search/fit_size.h"

#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Rate weights, in squared steps: from 1 to 4^6, at which all integers are zero.
constexpr double kFirstFitLambda = 1, kFitStride = 4;
constexpr int kFitStrides = 6, kFitCuts = 12;

}  // namespace

std::int64_t fit_size(std::int64_t max_bytes, const std::function<std::int64_t(double)>& bytes_at) {
  // What fits is left as it was trained: numbers that are chosen anew answer worse, even where
  // finer steps would fill the room (docs/explanation/rate.md).
  std::int64_t bytes = bytes_at(0);
  if (bytes <= max_bytes) return bytes;
  BracketSearch search({.cuts = kFitCuts, .stride = kFitStride, .strides = kFitStrides},
                       {.first = kFirstFitLambda, .fails = 0});
  while (const auto lambda = search.next()) {
    bytes = bytes_at(*lambda);
    search.tried(*lambda, bytes <= max_bytes);
  }
  // Where none fits, the last one is as small as it gets.
  const bool other = search.holds() && search.state().last != search.holds();
  return other ? bytes_at(*search.holds()) : bytes;
}

}  // namespace gbcompress
