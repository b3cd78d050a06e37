// The last choice of integers, for a file of the target size.
#include "bottleneck/impl.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Rate weights, in squared steps: from 1 to 4^6, at which all integers are zero.
constexpr double kFirstLambda = 1, kStride = 4;
constexpr int kStrides = 6, kHalvings = 12;

}  // namespace

void GenomicBottleneck::Impl::land(std::int64_t wanted) {
  const auto bytes_at = [&](double lambda) {
    choose_integers(lambda);
    return bytes();
  };
  // What fits is left as it was trained: numbers that are chosen anew answer worse, even where
  // finer steps would fill the room (docs/explanation/rate.md).
  if (bytes_at(0) <= wanted) return;
  BracketSearch search({.cuts = kHalvings, .stride = kStride, .strides = kStrides},
                       {.first = kFirstLambda, .fails = 0});
  while (const auto lambda = search.next()) search.tried(*lambda, bytes_at(*lambda) <= wanted);
  // Where none fits, the last one is as small as it gets.
  if (search.holds() && search.state().last != search.holds()) choose_integers(*search.holds());
}

}  // namespace gbcompress
