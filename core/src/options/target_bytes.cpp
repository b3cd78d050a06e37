#include <cmath>
#include <cstdio>

#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress {
namespace {

/// Above it a size is no limit for any file.
constexpr double kLargest = 9e18;
/// Models below so many of the smallest files hardly shrink: no ratio that this file allows is
/// likely to be reached.
constexpr double kSmallModel = 10;

/// A file as large as the model's would still be one of rounded weights.
constexpr const char* kExactInstead = "; use `mode` exact and no target to keep every bit";

std::string plain(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

[[noreturn]] void refuse(const char* option, double value, double bytes, double limit,
                         const char* bound) {
  char text[200];
  std::snprintf(text, sizeof text,
                "%s %g gives a file of %.3g bytes, and the smallest file has %lld; use a value %s "
                "%.5g",
                option, value, bytes, static_cast<long long>(kSmallestFile), bound, limit);
  throw Error(Errc::kUsage, text);
}

[[noreturn]] void refuse_small_model(double ratio, double bytes, std::int64_t model) {
  char text[240];
  std::snprintf(text, sizeof text,
                "`ratio` %g gives a file of %.3g bytes, and the smallest file has %lld: a model of "
                "%lld bytes hardly shrinks; leave the target out, or give `max_error` 0.01",
                ratio, bytes, static_cast<long long>(kSmallestFile), static_cast<long long>(model));
  throw Error(Errc::kUsage, text);
}

}  // namespace

std::optional<std::int64_t> target_bytes(const Target& target, const InputSize& input) {
  const auto smallest = static_cast<double>(kSmallestFile);
  if (target.max_bytes) {
    if (*target.max_bytes < kSmallestFile)
      throw Error(Errc::kUsage, "`max_bytes` must be at least " + std::to_string(kSmallestFile) +
                                    ", got " + std::to_string(*target.max_bytes));
    return target.max_bytes;
  }
  if (target.ratio) {
    if (!(*target.ratio > 1 && std::isfinite(*target.ratio)))
      throw Error(Errc::kUsage, "`ratio` must be a number above 1, such as 20, got " +
                                    plain(*target.ratio) + kExactInstead);
    const auto whole = static_cast<double>(input.file_bytes);
    const double bytes = whole / *target.ratio;
    if (bytes < smallest && whole < kSmallModel * smallest)
      refuse_small_model(*target.ratio, bytes, input.file_bytes);
    if (bytes < smallest) refuse("`ratio`", *target.ratio, bytes, whole / smallest, "of at most");
    return static_cast<std::int64_t>(std::fmin(bytes, kLargest));
  }
  if (target.bits) {
    if (!(*target.bits > 0 && std::isfinite(*target.bits)))
      throw Error(Errc::kUsage, "`bits` must be a number above 0, such as 4");
    const double weights = std::fmax(1, static_cast<double>(input.weights));
    if (input.real_bits > 0 && *target.bits >= input.real_bits)
      throw Error(Errc::kUsage, "`bits` must be below the " + plain(input.real_bits) +
                                    " bits that the model takes for a weight, got " +
                                    plain(*target.bits) + kExactInstead);
    const double bytes = *target.bits / 8 * static_cast<double>(input.weights);
    if (bytes < smallest)
      refuse("`bits`", *target.bits, bytes, 8 * smallest / weights, "of at least");
    return static_cast<std::int64_t>(std::fmin(bytes, kLargest));
  }
  return {};
}

}  // namespace gbcompress
