#pragma once
/// Files whose integers follow from statistics as plain data, beside those of an allocation.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "compress/compress_run.h"
#include "gbcompress/weights.h"

namespace gbcompress {

/// Compares uses of the allocation's statistics with its own file, by what they lose on its
/// held-out samples; batch norms are corrected for each file's integers. The model ends with the
/// values of the best file. Several ranks: the first one makes the files, and all get the best.
/// @param own      the allocation's file, whose values the model has
/// @param options  with the size of the file
/// @param time     whether there is time for another file; asked by the first rank alone
/// @return the best of these files, if it loses less than `own`
/// @throws as encode_weights() [collective]
std::optional<Candidate> better_by_statistics(CompressRun& call, const std::vector<std::byte>& own,
                                              WeightsOptions options,
                                              const std::function<bool()>& time);

}  // namespace gbcompress
