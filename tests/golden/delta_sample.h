#pragma once
/// Bases, the model that they became, and the exact delta between them.

#include <cstddef>
#include <vector>

#include "gbcompress/artifact.h"
#include "support/made_tensors.h"

namespace gbcompress::samples {

struct DeltaSample {
  testing::MadeTensors base, now;
  ArtifactWriter writer;
  testing::MadeTensors second = {};  ///< another base
};
/// Both forms of a change, elements of 1, 2, 4 and 8 bytes, classes and none.
DeltaSample delta();
/// The change since two bases: tensors of the second one, and pieces of each kind.
DeltaSample pieces();

/// A small file with layers: tensors that changed, that are the draft's and that it lacks.
std::vector<std::byte> layered();

}  // namespace gbcompress::samples
