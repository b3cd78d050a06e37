#pragma once
/// The methods. Those of a few lines are in method.cpp. No LibTorch.

#include "compress/methods/method.h"

namespace gbcompress {

/// Every value as it is, whatever the target.
struct ExactMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

/// Integers from the weights alone, for a size or an error; for a quality drop, the largest of some
/// ratios that keeps it.
struct DataFreeMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

/// Integers under second-order statistics, for a size; for a quality drop as DataFreeMethod. If the
/// model of the target size is collapsed and no other method follows, the smallest file found whose
/// model is not.
struct CalibratedMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

/// One attempt with all options as they stand.
struct FixedRateMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

/// RateSearch for what the plan asks.
struct RateSearchMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

/// G-nets of the target size; for a quality drop, of one ratio after another, until it is kept.
struct GnetSizeMethod final : CompressionMethod {
  Candidate run(const CompressionPlan& plan, TrainingRun& run) override;
};

}  // namespace gbcompress
