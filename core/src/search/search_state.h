#pragma once
/// What a checkpoint holds of a search for lambda: plain data, and its bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/internal.h"
#include "search/lambda_search.h"

namespace GBC_INTERNAL gbcompress {

/// Results of the attempts of a search for lambda.
struct LambdaSearchState {
  static constexpr int kVersion = 1;
  std::vector<LambdaPoint> points;  ///< of all attempts, the baseline run first
  /// Quality of the given model on the held-out split less what it remembers of it; the standard
  /// error of a quality drop; quality of the baseline run on training samples; whether a model was
  /// trained without the held-out split to see what the given one remembers.
  double baseline = 0, noise = 0, baseline_seen = 0;
  bool relearned = false;
  double best_above_chance = 0;  ///< quality above chance of the best model seen
  /// Of the best file: its lambda, the part of the quality above chance it has kept, its loss.
  double best_lambda = 0, best_kept = 0, best_loss = 0;
  double base_lambda = 0;  ///< of the attempt that the next one continues; 0: the beginning

  bool operator==(const LambdaSearchState&) const = default;
};

/// CBOR, with the version of the structure.
std::vector<std::byte> to_cbor(const LambdaSearchState& state);

/// @throws Error(kCorrupt) for bytes that are no such state, or of another version
LambdaSearchState lambda_search_state_of(std::span<const std::byte> cbor);

}  // namespace gbcompress
