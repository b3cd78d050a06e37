#pragma once
/// Training data that are kept out of training, to judge by. The test split is only ever reported.

#include <cstdint>

#include "gbcompress/model.h"

namespace gbcompress {

struct HeldBack {
  Dataset train, judge;
};

/// A tenth of the samples, where there are few a little more: drawn by `seed` alone. Labeled
/// samples are drawn class by class in proportion, so that data sorted by class are judged on all
/// of them. Sequences are held back in blocks of neighbors, and those beside a block are left
/// out, since windows of one text overlap.
/// @throws Error(kUsage) for fewer than two samples
HeldBack hold_back(const Dataset& data, std::uint64_t seed);

/// The same samples fewer: `count` of them, class by class in proportion.
Dataset some_of(const Dataset& data, std::int64_t count, std::uint64_t seed);

}  // namespace gbcompress
