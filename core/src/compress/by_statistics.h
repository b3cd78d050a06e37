#pragma once
/// Files of recurrent models whose integers follow from statistics as plain data.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "compress/compress_run.h"
#include "gbcompress/weights.h"

namespace gbcompress {

/// Compares files under the joint moments of inputs and hidden states with a file of the
/// allocation, by what they lose on its held-out samples. The model ends with the values of the
/// best file.
/// @param own      the allocation's file, whose values the model has
/// @param options  with the size of the file
/// @param time     whether there is time for another file
/// @return the best of these files, if it loses less than `own`
/// @throws as encode_weights()
std::optional<Candidate> better_by_statistics(CompressRun& call, const std::vector<std::byte>& own,
                                              WeightsOptions options,
                                              const std::function<bool()>& time);

}  // namespace gbcompress
