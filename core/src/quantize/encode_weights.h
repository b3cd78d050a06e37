#pragma once
/// The file that compress_weights() writes, in memory.

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/internal.h"
#include "gbcompress/weights.h"

namespace GBC_INTERNAL gbcompress {

struct EncodedWeights {
  std::vector<std::byte> file;
  WeightsReport report;
};

/// @param folder  where large content is spooled meanwhile
/// @throws as compress_weights(), which sets `options.overwrite` aside: nothing is written
EncodedWeights encode_weights(const TensorBundle& weights, const std::filesystem::path& folder,
                              const WeightsOptions& options);

}  // namespace gbcompress
