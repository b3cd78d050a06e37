#pragma once
/// A base, the model that it became, and the exact delta between them.

#include "gbcompress/artifact.h"
#include "support/made_tensors.h"

namespace gbcompress::samples {

struct DeltaSample {
  testing::MadeTensors base, now;
  ArtifactWriter writer;
};
/// Both forms of a change, elements of 1, 2, 4 and 8 bytes, classes and none.
DeltaSample delta();

}  // namespace gbcompress::samples
