#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress {
namespace {

constexpr double kStart = 1.0 / 25, kEnd = 1.0 / 250'000;

/// From `from` at 0 to `to` at 1 along half a cosine.
double cosine(double from, double to, double at) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

double warm_cosine(std::int64_t step, std::int64_t total) {
  const std::int64_t warm = total / 10;
  // The first step already moves, and 0 is only reached behind the last one: no step is wasted.
  if (step < warm) return static_cast<double>(step + 1) / static_cast<double>(warm);
  return cosine(1, 0, static_cast<double>(step - warm) / static_cast<double>(total - warm));
}

double one_cycle(std::int64_t step, std::int64_t total) {
  const double last = static_cast<double>(total - 1);
  const double peak = std::max(0.0, static_cast<double>(total) / 10 - 1);
  const double now = static_cast<double>(step);
  if (now < peak) return cosine(kStart, 1, now / peak);
  return last > peak ? cosine(1, kEnd, (now - peak) / (last - peak)) : 1;
}

double of_epoch(Schedule schedule, std::int64_t step, const EpochSchedule& epochs) {
  if (epochs.steps < 1 || epochs.epochs < 1 || !(epochs.factor >= 0 && epochs.factor <= 1))
    throw Error(
        Errc::kUsage,
        "a schedule of epochs needs steps and epochs of at least 1, and a factor of 0 to 1");
  const std::int64_t epoch = step / epochs.steps;
  const std::int64_t reductions = epoch / epochs.epochs;
  if (schedule == Schedule::kStep) return std::pow(epochs.factor, static_cast<double>(reductions));
  return cosine(1, epochs.factor, static_cast<double>(epoch) / static_cast<double>(epochs.epochs));
}

}  // namespace

std::string_view schedule_name(Schedule schedule) noexcept {
  switch (schedule) {
    case Schedule::kConstant:
      return "constant";
    case Schedule::kCosine:
      return "cosine";
    case Schedule::kOneCycle:
      return "one_cycle";
    case Schedule::kStep:
      return "step";
    case Schedule::kEpochCosine:
      return "epoch_cosine";
  }
  return "";
}

std::string_view optimizer_name(OptimizerRule rule) noexcept {
  return rule == OptimizerRule::kAdamW ? "adamw" : "sgd";
}

double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t total,
                       const EpochSchedule& epochs) {
  if (step < 0 || step >= total)
    throw Error(Errc::kUsage, "step " + std::to_string(step) + " lies outside a schedule of " +
                                  std::to_string(total) + " steps");
  switch (schedule) {
    case Schedule::kConstant:
      return 1;
    case Schedule::kCosine:
      return warm_cosine(step, total);
    case Schedule::kOneCycle:
      return one_cycle(step, total);
    case Schedule::kStep:
    case Schedule::kEpochCosine:
      return of_epoch(schedule, step, epochs);
  }
  return 1;
}

}  // namespace gbcompress
