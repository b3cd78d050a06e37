#pragma once
/// Noise that no order of work changes, and dropout by it.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// Random numbers for strategies and their like: they depend on what they are for and on the number
// of their sample, never on what was drawn before, by which thread, or on which rank.

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

/// What random layers of a model draw by, on this thread, as long as this lives: the training loop
/// opens one around each batch, and a strategy that computes parts of several batches one around
/// each part. The innermost counts.
class NoiseScope {
 public:
  /// @param samples  numbers of the rows; outlives this
  NoiseScope(std::uint64_t seed, std::int64_t step, std::span<const std::int64_t> samples);
  ~NoiseScope();
  NoiseScope(const NoiseScope&) = delete;
  NoiseScope& operator=(const NoiseScope&) = delete;

  std::uint64_t seed() const { return seed_; }
  std::int64_t step() const { return step_; }
  std::span<const std::int64_t> samples() const { return samples_; }
  /// The innermost of this thread, or null.
  static const NoiseScope* current() noexcept;

 private:
  std::uint64_t seed_;
  std::int64_t step_;
  std::span<const std::int64_t> samples_;
  const NoiseScope* before_;
};
/// Dropout of a layer: which elements are 0 depends on the scope's seed, step and sample, and on
/// the layer, never on threads, ranks or what was drawn before. Without a scope, LibTorch's
/// generator draws. [thread-safe]
/// @param x      [rows, ...], a row per sample of the scope
/// @param p      part of the elements that become 0, 0 to below 1; the others are divided by 1 - p
/// @param layer  names the draw
/// @throws Error(kUsage) for another p; Error(kShapeMismatch) for another number of rows
at::Tensor keyed_dropout(const at::Tensor& x, double p, const std::string& layer, bool training);

}  // namespace gbcompress
