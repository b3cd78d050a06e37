#include "rate/packed_values.h"

#include <gtest/gtest.h>

namespace gbcompress {
namespace {

TEST(PackedValues, GivesBackWhatItWasMadeFrom) {
  struct Case {
    std::vector<std::int32_t> integers;
    std::int64_t bytes;
  };
  for (const auto& [integers, bytes] :
       {Case{{-128, 0, 127}, 3}, Case{{128, 0}, 4}, Case{{-129}, 2}, Case{{-32768, 32767}, 4},
        Case{{32768}, 4}, Case{{-32769, 1, 2}, 12}, Case{{}, 0}}) {
    CodedValues values{.grid = {1, static_cast<std::int64_t>(integers.size()), 0},
                       .integers = integers,
                       .step = -7,
                       .row_steps = {3}};
    const PackedValues packed(values), copy = packed;
    EXPECT_EQ(packed.size(), static_cast<std::int64_t>(integers.size()));
    EXPECT_EQ(packed.bytes(), bytes);
    EXPECT_TRUE(packed.form().integers.empty());
    const CodedValues back = copy.unpacked();
    EXPECT_EQ(back.integers, integers);
    EXPECT_EQ(back.grid.cols, values.grid.cols);
    EXPECT_EQ(back.step, -7);
    EXPECT_EQ(back.row_steps, values.row_steps);
  }
}

}  // namespace
}  // namespace gbcompress
