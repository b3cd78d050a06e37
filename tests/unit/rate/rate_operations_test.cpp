#include "rate/rate_operations.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/segments.h"
#include "rate/laplace_rate.h"

namespace gbcompress {
namespace {

struct Numbers {
  Numbers(std::int64_t rows, std::int64_t columns) {
    at::manual_seed(5);
    latent = at::randn({rows, columns}).mul_(0.3);
    inverse_scale = at::rand({rows, columns}).mul_(6).exp_().reciprocal_().clamp_(0.001, 50);
    gradient = at::randn({rows, columns}).mul_(0.01);
    for (std::int64_t r = 0; r < rows; ++r) steps.push_back(0.05f + 0.01f * static_cast<float>(r));
  }
  std::span<float> of(const at::Tensor& all, const Segment& segment) const {
    return {all.data_ptr<float>() + segment.first, static_cast<std::size_t>(segment.count)};
  }
  at::Tensor latent, inverse_scale, gradient;
  std::vector<float> steps;
};

/// Both ways to compute the same: the kernel, as Latents calls it, and operations.
void compare(std::int64_t rows, std::int64_t columns, float weight) {
  const Numbers numbers(rows, columns);
  const at::Tensor expected = numbers.gradient.clone(), found = numbers.gradient.clone();
  RateSums sums;
  std::vector<double> slopes(numbers.steps.size());
  for (const Segment& segment : segments_of(numbers.latent.numel(), numbers.steps.size())) {
    const RateSums each =
        laplace_rate(numbers.of(numbers.latent, segment), numbers.steps[segment.group],
                     numbers.of(numbers.inverse_scale, segment), weight, 77,
                     static_cast<std::uint32_t>(segment.first), numbers.of(expected, segment));
    sums.bits += each.bits;
    slopes[segment.group] += each.log_step_gradient;
  }
  const DeviceRateSums result = laplace_rate(numbers.latent, numbers.steps, numbers.inverse_scale,
                                             weight, 77, found, /*count_bits=*/true);
  EXPECT_TRUE(at::allclose(found, expected, 1e-4, 1e-5)) << (found - expected).abs().max();
  EXPECT_NEAR(result.bits.item<double>(), sums.bits, 1e-5 * sums.bits);
  ASSERT_EQ(result.log_step_gradient.numel(), rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double slope = slopes[static_cast<std::size_t>(r)];
    EXPECT_NEAR(result.log_step_gradient[r].item<double>(), slope, 1e-4 * std::fabs(slope) + 1e-3)
        << r;
  }
  const at::Tensor without = numbers.gradient.clone();
  EXPECT_EQ(laplace_rate(numbers.latent, numbers.steps, numbers.inverse_scale, weight, 77, without,
                         /*count_bits=*/false)
                .bits.item<double>(),
            0);
  EXPECT_TRUE(at::equal(without, found));
}

TEST(RateOperations, AreTheKernelsFormulasAndNoise) {
  compare(1, 1000, 0.5f);
  compare(7, 333, 1e-3f);
  compare(64, 1, 0.2f);
}

TEST(RateOperations, PartsOfLargeTensorsHaveTheirOwnNoise) {
  compare(1, (1 << 22) + 1000, 0.1f);
  compare(3, (1 << 21) - 5, 0.1f);
}

TEST(RateOperations, RoundToTheSameBits) {
  for (const std::int64_t rows : {1, 5}) {
    const Numbers numbers(rows, 4099);
    const at::Tensor expected = at::empty_like(numbers.latent);
    for (const Segment& segment : segments_of(numbers.latent.numel(), numbers.steps.size()))
      round_to_step(numbers.of(numbers.latent, segment), numbers.steps[segment.group],
                    numbers.of(expected, segment).data());
    EXPECT_TRUE(at::equal(rounded_to_step(numbers.latent, numbers.steps), expected));
  }
  const std::vector<float> step = {0.5f};  // halves go to the even neighbor
  const at::Tensor halves = at::tensor({0.25f, 0.75f, -0.25f, -1.25f});
  EXPECT_TRUE(at::equal(rounded_to_step(halves, step), at::tensor({0.0f, 1.0f, -0.0f, -1.0f})));
}

}  // namespace
}  // namespace gbcompress
