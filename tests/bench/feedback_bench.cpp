// Seconds of calibration's two steps, for matrices of the sides that large language models have:
// the factor of the second moments, and rounding with error feedback under it, to the nearest
// integers and to dependent ones.
//
//   gbc_feedback_bench [THREADS [ROWS COLS]...]
//
// Without sides: 4096 x 4096 and 4096 x 11008. Moments are made: correlations that fall with the
// distance of two inputs, and outlier inputs. Prints JSON.
#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"
#include "quantize/feedback/trellis_feedback.h"

namespace gbcompress {
namespace {

constexpr int kStep = -50;  // 0.115 of deviation 0.25: about 3 bits
constexpr double kDamp = 0.02;

std::vector<float> moments_of(std::int64_t n) {
  std::vector<double> near(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    near[static_cast<std::size_t>(i)] = std::pow(0.98, static_cast<double>(i));
  std::vector<float> moments(static_cast<std::size_t>(n * n));
  const auto scale = [](std::int64_t i) { return i % 1376 == 5 ? 10.0 : 1.0 + 0.5 * std::sin(i); };
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      moments[static_cast<std::size_t>(i * n + j)] =
          static_cast<float>(scale(i) * scale(j) * near[static_cast<std::size_t>(std::abs(i - j))]);
  return moments;
}

struct Seconds {
  double wall, processor;
};

template <typename Work>
Seconds measure(const Work& work) {
  const auto processor = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double before = processor();
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), processor() - before};
}

void run(std::int64_t rows, std::int64_t cols, int threads, const char* comma) {
  const std::vector<float> moments = moments_of(cols);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  RandomStream(1, "feedback_bench").fill_normal(values, 0, 0.25f);
  SecondOrder model;
  const Seconds factor = measure(
      [&] { model.columns = std::make_shared<const UpperFactor>(moments, cols, kDamp, threads); });
  std::printf("%s{\"rows\": %lld, \"cols\": %lld, \"threads\": %d, \"factor\": [%.2f, %.2f]", comma,
              static_cast<long long>(rows), static_cast<long long>(cols), threads, factor.wall,
              factor.processor);
  std::fflush(stdout);
  const Seconds nearest = measure([&] {
    round_with_feedback({rows, cols}, values, model, {.step = kStep, .threads = threads});
  });
  std::printf(", \"nearest\": [%.2f, %.2f]", nearest.wall, nearest.processor);
  std::fflush(stdout);
  // The factor is that of another order of columns, which takes as long.
  const IntegerGrid grid{.rows = rows, .cols = cols, .dependent = true, .lanes = true};
  if (const auto order = column_order({&grid, 1})) {
    const Seconds dependent = measure(
        [&] { round_dependent(grid, values, model, *order, {.step = kStep, .threads = threads}); });
    std::printf(", \"dependent\": [%.2f, %.2f]", dependent.wall, dependent.processor);
  }
  std::printf("}");
  std::fflush(stdout);
}

int main_of(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : usable_processors();
  std::printf("{\"seconds\": \"[wall, processor]\", \"rows\": [\n ");
  if (argc < 4) {
    run(4096, 4096, threads, "");
    run(4096, 11008, threads, ",\n ");
  }
  for (int i = 2; i + 1 < argc; i += 2)
    run(std::atoll(argv[i]), std::atoll(argv[i + 1]), threads, i > 2 ? ",\n " : "");
  std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  try {
    return gbcompress::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gbc_feedback_bench: %s\n", error.what());
    return 1;
  }
}
