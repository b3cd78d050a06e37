#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "gbcompress/weights.h"
#include "quantize/matrix.h"
#include "support/files.h"
#include "support/made_tensors.h"

#ifdef __has_feature  // Clang
#define GBC_SANITIZED __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GBC_SANITIZED 1
#else
#define GBC_SANITIZED 0
#endif

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

MadeTensors model(int layers, std::int64_t side) {
  MadeTensors made;
  for (int i = 0; i < layers; ++i)
    made.add("l" + std::to_string(i) + ".weight", {side, side},
             normals(side * side, static_cast<std::uint64_t>(i), 0.05f));
  made.sorted();
  return made;
}

std::int64_t peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

void expect_within(double estimate, double actual, double factor, const char* what) {
  EXPECT_LT(estimate, factor * actual) << what;
  EXPECT_GT(estimate, actual / factor) << what;
}

class Estimate : public ::testing::TestWithParam<std::pair<int, std::int64_t>> {};

/// The count of choices of an integer is the same on every machine.
TEST_P(Estimate, OfWorkIsWithinAFactorOfTwo) {
  const auto [layers, side] = GetParam();
  const MadeTensors made = model(layers, side);
  const TempDir folder;
  const std::int64_t weights = layers * side * side;
  for (const WeightsOptions& options : {WeightsOptions{.max_bytes = weights / 2, .threads = 1},
                                        WeightsOptions{.max_bytes = weights / 4, .threads = 1},
                                        WeightsOptions{.max_error = 0.01, .threads = 1}}) {
    const WeightsEstimate estimate = estimate_weights(made.bundle, options);
    EXPECT_EQ(estimate.weights, weights);
    EXPECT_EQ(estimate.quantized, weights);
    EXPECT_GT(estimate.seconds, 0);
    const std::int64_t before = StepMatrix::values_chosen();
    WeightsOptions overwrite = options;
    overwrite.overwrite = true;
    const WeightsReport report = compress_weights(made.bundle, folder.path() / "x.gbz", overwrite);
    expect_within(static_cast<double>(estimate.values_chosen),
                  static_cast<double>(StepMatrix::values_chosen() - before), 2, "values chosen");
    EXPECT_GE(report.output_bytes, estimate.least_bytes * 9 / 10);
    EXPECT_LE(report.output_bytes, estimate.most_bytes);
  }
}

/// In a process of its own, whose peak is that of this work.
TEST_P(Estimate, OfMemoryIsWithinAFactorOfTwo) {
#if GBC_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow memory and its list of freed blocks are part of the peak";
#endif
  const auto [layers, side] = GetParam();
  const TempDir folder;
  const auto file = folder.path() / "x.gbz";
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::int64_t told[2] = {0, 0};
    const MadeTensors made = model(layers, side);
    const WeightsOptions options{.max_bytes = layers * side * side / 2, .threads = 1};
    told[0] = estimate_weights(made.bundle, options).memory_bytes;
    compress_weights(made.bundle, file, options);
    told[1] = peak();
    const bool sent = ::write(pipe_ends[1], told, sizeof told) == sizeof told;
    ::_exit(sent ? 0 : 1);
  }
  std::int64_t told[2] = {0, 0};
  ASSERT_EQ(::read(pipe_ends[0], told, sizeof told), static_cast<ssize_t>(sizeof told));
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  expect_within(static_cast<double>(told[0]), static_cast<double>(told[1]), 2, "memory");
}

INSTANTIATE_TEST_SUITE_P(Models, Estimate,
                         ::testing::Values(std::pair(3, std::int64_t{128}),
                                           std::pair(6, std::int64_t{1024})));

}  // namespace
}  // namespace gbcompress
