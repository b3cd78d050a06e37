#include "compress/methods/method.h"

#include "compress/methods/drop_sizes.h"
#include "compress/methods/methods.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// One attempt with all options as they stand.
Candidate one_attempt(const CompressionPlan& plan, TrainingRun& run) {
  run.make(plan.max_bytes);
  return run.candidate();
}

}  // namespace

Candidate ExactMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  return one_attempt(plan, run);
}

Candidate DataFreeMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  return plan.max_drop ? largest_ratio_within_drop(plan, run, /*cheap=*/true) : run.data_free();
}

Candidate FixedRateMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  return one_attempt(plan, run);
}

Candidate GnetSizeMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  return plan.max_drop ? largest_ratio_within_drop(plan, run, /*cheap=*/false)
                       : one_attempt(plan, run);
}

std::unique_ptr<CompressionMethod> make_method(Method method) {
  switch (method) {
    case Method::kExact:
      return std::make_unique<ExactMethod>();
    case Method::kDataFree:
      return std::make_unique<DataFreeMethod>();
    case Method::kCalibrated:
      return std::make_unique<CalibratedMethod>();
    case Method::kFixedRate:
      return std::make_unique<FixedRateMethod>();
    case Method::kRateSearch:
      return std::make_unique<RateSearchMethod>();
    case Method::kGnetSize:
      return std::make_unique<GnetSizeMethod>();
  }
  throw Error(Errc::kFailure, "method without a class");
}

}  // namespace gbcompress
