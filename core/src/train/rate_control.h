#pragma once
/// The price of a bit over a training run.

#include <cstdint>

#include "gbcompress/train.h"

namespace gbcompress {

class RateControl {
 public:
  /// @param samples     predictions of the training split: the loss is per prediction, the bits are
  ///                    paid once
  /// @param steps       of the whole run, at least 1
  RateControl(const RateOptions& options, std::int64_t samples, std::int64_t steps);

  /// Sets the bottleneck's price of a bit for step `step`, and now and then has the coder say what
  /// it expects of the integers.
  void before_step(std::int64_t step, GenomicBottleneck& bottleneck) const;

 private:
  RateOptions options_;
  double samples_, steps_;
  std::int64_t interval_;
};

}  // namespace gbcompress
