#pragma once
/// Training data that are held out, to measure quality drops on. The test set is only reported.

#include <cstdint>

#include "gbcompress/model.h"

namespace gbcompress {

struct HeldOutSplit {
  Dataset train, held_out;
};

/// A tenth of the samples, up to a quarter of few, drawn by `seed` alone. Labeled samples are drawn
/// class by class in proportion, so that data sorted by class have all classes in it. Sequences are
/// held out in blocks of neighbors, and those beside a block are in neither part, since windows of
/// one text overlap.
/// @throws Error(kUsage) for fewer than two samples
HeldOutSplit held_out_split(const Dataset& data, std::uint64_t seed);

/// The same samples fewer: `count` of them, class by class in proportion.
Dataset some_of(const Dataset& data, std::int64_t count, std::uint64_t seed);

}  // namespace gbcompress
