#pragma once
/// What is measured on held-out data.

#include <cstdint>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class Metric : std::uint8_t {
  kAccuracy,     ///< percent right, larger is better
  kNatsPerChar,  ///< mean cross-entropy a position, smaller is better
  /// Squared difference from the original's outputs over their squares, smaller is better.
  kOutputError,
};

/// "accuracy_percent", "nats_per_char", "output_error"
std::string_view metric_name(Metric metric) noexcept;
/// How much worse `after` is than `before`, in the metric's unit; negative where it is better.
double metric_drop(Metric metric, double before, double after) noexcept;

}  // namespace gbcompress
