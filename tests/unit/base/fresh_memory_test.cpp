#include "base/fresh_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace gbcompress {
namespace {

TEST(FreshMemory, HasItsSizeAndIsAlignedForHugePagesWhereItIsLarge) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000},
                                 (std::size_t{2} << 20) - 1, (std::size_t{9} << 20) + 3}) {
    FreshMemory memory(size);
    ASSERT_EQ(memory.size(), size);
    const std::size_t unit = size < (std::size_t{2} << 20) ? 64 : std::size_t{2} << 20;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % unit, 0u) << size;
    std::fill_n(memory.data(), size, std::byte{7});  // a sanitizer knows where it ends
    const FreshMemory moved = std::move(memory);
    EXPECT_TRUE(std::all_of(moved.data(), moved.data() + size,
                            [](std::byte b) { return b == std::byte{7}; }));
  }
}

}  // namespace
}  // namespace gbcompress
