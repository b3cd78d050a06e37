// What single matrices take of a size that steps of all matrices leave.
#include <gtest/gtest.h>

#include "quantize/store.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

MadeTensors layers(int count) {
  MadeTensors made;
  for (int i = 0; i < count; ++i) {
    std::vector<float> values = normals(200 * 300, static_cast<std::uint64_t>(i) + 1);
    for (float& value : values) value *= 0.02f * static_cast<float>(1 + i % 5);
    made.add("layers." + std::to_string(i) + ".weight", {200, 300}, values);
  }
  made.sorted();
  return made;
}

TEST(Fill, TakesWhatIsLeftOfTheSize) {
  const testing::TempDir folder;
  const MadeTensors made = layers(24);
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis}) {
    const WeightsOptions options{.max_bytes = 700'000, .quantizer = quantizer, .threads = 2};
    const BitAllocation allocation(made.bundle, options);
    WeightsStore store(allocation, options, folder / "", "");
    const double x = allocation.start(4);
    const std::int64_t before = store.place(x), wanted = before * 1013 / 1000;
    const std::int64_t after = store.fill(x, wanted);
    EXPECT_EQ(after, store.size());
    EXPECT_LE(after, wanted);
    EXPECT_GE(after, wanted * 997 / 1000) << "a matrix of 24 takes 0.26 % of the size";
    EXPECT_EQ(store.fill(x, after), after) << "nothing is left";
  }
}

TEST(Fill, LeavesASizeThatIsExceeded) {
  const testing::TempDir folder;
  const MadeTensors made = layers(4);
  const WeightsOptions options{.max_bytes = 100'000, .threads = 1};
  const BitAllocation allocation(made.bundle, options);
  WeightsStore store(allocation, options, folder / "", "");
  const double x = allocation.start(4);
  const std::int64_t before = store.place(x);
  EXPECT_EQ(store.fill(x, before - 1000), before);
}

}  // namespace
}  // namespace gbcompress
