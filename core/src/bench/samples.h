#pragma once
/// Taking times.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace gbcompress {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Seconds that one run of `body` takes.
template <typename Body>
double seconds_of(const Body& body) {
  const auto start = Clock::now();
  body();
  return seconds_since(start);
}

/// Of one or more numbers.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Rates of one thing. A sample repeats the work until it is long against the clock and against
/// what waking threads costs.
class RateSampler {
 public:
  /// @param work  done by one run, in whatever unit the rate is to have
  explicit RateSampler(double work) : work_(work) {}

  template <typename Body>
  void sample(const Body& body) {
    if (repeats_ == 0) {  // the first run also touches memory and wakes threads: it does not count
      body();
      const double once = std::max(seconds_of(body), 1e-7);
      repeats_ = static_cast<std::int64_t>(std::clamp(kSample / once, 1.0, 1e6));
    }
    const double seconds = seconds_of([&] {
      for (std::int64_t i = 0; i < repeats_; ++i) body();
    });
    rates_.push_back(work_ * static_cast<double>(repeats_) / std::max(seconds, 1e-9));
  }
  double rate() const { return median(rates_); }
  int samples() const { return static_cast<int>(rates_.size()); }

 private:
  static constexpr double kSample = 0.01;  // seconds
  double work_;
  std::int64_t repeats_ = 0;
  std::vector<double> rates_;
};

}  // namespace gbcompress
