#pragma once
/// Metrics in words.

#include <string>

#include "gbcompress/metric.h"
#include "numbers.h"
#include "table.h"

namespace gbcompress::cli {

inline std::string metric_heading(Metric metric) {
  return metric == Metric::kAccuracy      ? "test accuracy"
         : metric == Metric::kNatsPerChar ? "test loss per character"
                                          : "test error of outputs";
}

/// "%", "nats", or "" for what has none.
inline std::string metric_unit(Metric metric) {
  return metric == Metric::kAccuracy ? "%" : metric == Metric::kNatsPerChar ? "nats" : "";
}

inline std::string metric_text(Metric metric, double value) {
  if (metric == Metric::kOutputError) return short_number(value);
  return fixed(value, metric == Metric::kAccuracy ? 2 : 4) + " " + metric_unit(metric);
}

}  // namespace gbcompress::cli
