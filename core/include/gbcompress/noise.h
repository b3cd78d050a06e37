#pragma once
/// Random numbers for strategies and their like: they depend on what they are for and on the number
/// of their sample, never on what was drawn before, by which thread, or on which rank.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/export.h"

namespace GBC_API gbcompress {

struct NoiseKey {
  std::uint64_t seed = 0;
  std::string purpose;  ///< what the numbers are for: "dtp.input"
  std::string layer;    ///< and of which layer
  std::uint64_t step = 0;
};

/// Standard normal numbers, float32 [samples, shape...]. The row of a sample depends on the key and
/// on the sample's number alone. [thread-safe]
/// @param samples  numbers of the samples, at least 0
at::Tensor normal_noise(const NoiseKey& key, std::span<const std::int64_t> samples,
                        const std::vector<std::int64_t>& shape);
/// The same without samples, float32 [shape...].
at::Tensor normal_noise(const NoiseKey& key, const std::vector<std::int64_t>& shape);

}  // namespace gbcompress
