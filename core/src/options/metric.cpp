#include "gbcompress/metric.h"

namespace gbcompress {

std::string_view metric_name(Metric metric) noexcept {
  return metric == Metric::kAccuracy      ? "accuracy_percent"
         : metric == Metric::kNatsPerChar ? "nats_per_char"
                                          : "output_error";
}

double metric_drop(Metric metric, double before, double after) noexcept {
  return metric == Metric::kAccuracy ? before - after : after - before;
}

}  // namespace gbcompress
