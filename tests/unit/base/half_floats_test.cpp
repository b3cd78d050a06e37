#include <bit>

#include "base/float16.h"
#include "support/files.h"
#include "support/targets.h"

namespace gbcompress {
namespace {

/// Of all halves, behind `before` bytes.
void expect_scalar_results(std::size_t before) {
  constexpr std::size_t kHalves = 1 << 16;
  std::vector<std::byte> halves(before);
  for (std::size_t half = 0; half < kHalves; ++half) {
    halves.push_back(static_cast<std::byte>(half & 255));
    halves.push_back(static_cast<std::byte>(half >> 8));
  }
  std::vector<float> floats(kHalves);
  floats_of_halves(std::span(halves).subspan(before), floats.data());
  for (std::size_t half = 0; half < kHalves; ++half)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(floats[half]),
              std::bit_cast<std::uint32_t>(half_to_float(static_cast<std::uint16_t>(half))))
        << half;
}

TEST(HalfFloats, AreTheScalarResultsOnEveryProcessor) {
  testing::on_every_target([](const char* target) {
    SCOPED_TRACE(target);
    expect_scalar_results(0);
    expect_scalar_results(1);
  });
}

TEST(HalfFloats, OfAnyNumber) {
  std::vector<std::byte> halves;
  for (std::size_t n = 0; n < 70; ++n) {
    std::vector<float> floats(n + 1, -1);
    floats_of_halves(halves, floats.data());
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(floats[i], 1.5F) << n;
    EXPECT_EQ(floats[n], -1);
    halves.push_back(std::byte{0});
    halves.push_back(std::byte{0x3E});
  }
}

}  // namespace
}  // namespace gbcompress
