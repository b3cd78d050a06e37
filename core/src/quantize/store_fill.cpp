// What single matrices take of a size that steps of all matrices leave.
#include <algorithm>

#include "quantize/store.h"

namespace gbcompress {
namespace {

/// Sixteenths of an octave by which a step becomes finer: matrices of all weights need not be made
/// anew for some thousandths of the size.
constexpr int kFinerBy = 4;
/// As shares of the size that is wanted: what is not worth another matrix, and what estimates of
/// single matrices may be wrong by.
constexpr double kLeftOver = 5e-4, kRoom = 2e-4;
constexpr int kRounds = 2;

}  // namespace

std::vector<WeightsStore::Finer> WeightsStore::finer_steps(double x, int by) const {
  const std::vector<double> now = allocation_.expected_bytes(x),
                            then = allocation_.expected_bytes(x - 1.0 * by / kStepsPerOctave);
  std::vector<Finer> found;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    const bool follows = tensor.sample && !tensor.own_step && !tensor.max_error && !tensor.second &&
                         !exact_[i] && (!tensor.model || !tensor.model->second);
    if (!follows || nudges_[i] != 0 || !(then[i] > now[i])) continue;
    int distance = 1;
    while (distance < 64 && tensor.step(x - distance / 64.0) == tensor.step(x)) ++distance;
    found.push_back({i, distance, then[i] - now[i]});
  }
  std::ranges::stable_sort(found, {}, &Finer::distance);
  return found;
}

std::int64_t WeightsStore::fill(double x, std::int64_t wanted) {
  const auto share = static_cast<double>(wanted);
  std::int64_t bytes = size();
  for (int round = 0; round < kRounds; ++round) {
    double left = static_cast<double>(wanted - bytes) - kRoom * share;
    if (left < kLeftOver * share) return bytes;
    std::vector<Finer> taken;
    for (const Finer& one : finer_steps(x, kFinerBy)) {
      if (one.bytes > left) continue;
      left -= one.bytes;
      nudges_[one.tensor] = -kFinerBy;
      taken.push_back(one);
    }
    if (taken.empty()) return bytes;
    bytes = place(x);
    while (bytes > wanted && !taken.empty()) {
      for (double over = static_cast<double>(bytes - wanted); over > 0 && !taken.empty();) {
        over -= taken.back().bytes;
        nudges_[taken.back().tensor] = 0;
        taken.pop_back();
      }
      bytes = place(x);
    }
  }
  return bytes;
}

}  // namespace gbcompress
