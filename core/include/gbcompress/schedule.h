#pragma once
/// Options of AdamW, and learning-rate schedules. No LibTorch.

#include <cstdint>
#include <optional>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Defaults of torchGB.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< decoupled
};

enum class Schedule : std::uint8_t {
  kConstant,
  kCosine,    ///< linear warm-up over the first tenth, then half a cosine to 0
  kOneCycle,  ///< cosine from 1/25 up to 1 over the first tenth, cosine down to 1/250,000
};
std::string_view schedule_name(Schedule schedule) noexcept;  ///< "constant", "cosine", "one_cycle"
std::optional<Schedule> parse_schedule(std::string_view name) noexcept;
/// Factor on the learning rate of step `step` of `total`, 0 <= step < total. Always above 0: cosine
/// would reach 0 one step behind the last.
/// @throws Error(kUsage) for a step outside
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t total);

}  // namespace gbcompress
