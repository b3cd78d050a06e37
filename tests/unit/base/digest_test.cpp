#include "base/digest.h"

#include "support/files.h"

namespace gbcompress {
namespace {

using testing::to_bytes;

// Values that the Python package xxhash 4.1.0 gives.
TEST(Xxh3, KnownAnswers) {
  EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3_64(to_bytes("abc")), 0x78af5f94892f3950u);
  EXPECT_EQ(xxh3_64(to_bytes(std::string(1000, 'a'))), 0xb3e7af627147db7cu);
}

TEST(Xxh3, PartsGiveTheSameAsTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  for (std::size_t n : {0u, 1u, 240u, 241u, 1024u, 5000u}) {
    const std::string whole = text.substr(0, n);
    Xxh3 hash;
    for (std::size_t at = 0, step = 1; at < n; at += step, step = step * 2 + 1)
      hash.update(to_bytes(whole.substr(at, step)));
    EXPECT_EQ(hash.value(), xxh3_64(to_bytes(whole))) << n;
  }
}

TEST(Hex, TwoLowerCaseDigitsAByte) {
  EXPECT_EQ(to_hex(std::string("\x00\x0f\xa9\xff", 4)), "000fa9ff");
}

}  // namespace
}  // namespace gbcompress
