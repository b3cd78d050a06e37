#include <gtest/gtest.h>

#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

using testing_codec::Tensor;

/// The example of docs/reference/codec.md, then the same numbers 40 times as large with a prior.
std::vector<Tensor> example() {
  Tensor first{{6, 12, 4}, {}, {}};
  std::uint32_t state = 1;
  for (int i = 0; i < 72; ++i) {
    state = state * 1664525 + 1013904223;
    const int draw = static_cast<int>(state >> 24);  // 0 ... 255
    first.values.push_back(draw < 150 ? 0 : draw < 200 ? 1 : draw < 240 ? -1 : draw - 250);
  }
  Tensor second{{72, 1, 0}, {}, {}};
  for (int i = 0; i < 72; ++i) {
    second.values.push_back(40 * first.values[i]);
    second.prior.push_back(static_cast<std::uint8_t>(i % 16));
  }
  return {first, second};
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::byte byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

// A change here is a new format: files that exist would no longer be read.
TEST(Golden, SmallStreamsStayAsTheyAre) {
  EXPECT_EQ(hex(testing_codec::encode(CodecProfile::kSmall, example())),
            "47c961ad24e2efe4cd9ec94c74d9e5198b817df4fefbc28f4f76cb7c7458fc94"
            "cc89d6a83171da4b23958a56abd2f5a3dfe2aed1ffa9edad0c37");
}

}  // namespace
}  // namespace gbcompress
