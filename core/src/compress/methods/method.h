#pragma once
/// A method of compression, on the runs of one model. No LibTorch.

#include <memory>

#include "compress/training_run.h"
#include "gbcompress/plan.h"

namespace gbcompress {

class CompressionMethod {
 public:
  virtual ~CompressionMethod() = default;

  /// The file that it makes of the model; the run then stands where the last attempt ended. To be
  /// called after run.begin(). [collective]
  virtual Candidate run(const CompressionPlan& plan, TrainingRun& run) = 0;
};

std::unique_ptr<CompressionMethod> make_method(Method method);

}  // namespace gbcompress
