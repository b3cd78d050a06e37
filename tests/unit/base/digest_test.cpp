#include "base/digest.h"

#include "support/files.h"

namespace gbcompress {
namespace {

using testing::to_bytes;

std::string hex(const std::string& text) { return to_hex(sha256(to_bytes(text))); }

// FIPS 180-4 examples.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, OfAFile) {
  const testing::TempDir folder;
  const auto path = folder / "file";
  testing::put_file(path, "abc");
  EXPECT_EQ(file_digest(path), hex("abc"));
  EXPECT_THROW(file_digest(folder / "none"), Error);
}

TEST(Sha256, PartsGiveTheSameAsTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  Sha256 hash;
  for (std::size_t at = 0, step = 1; at < text.size(); at += step, step = step * 2 + 1)
    hash.update(to_bytes(text.substr(at, step)));
  EXPECT_EQ(hash.finish(), sha256(to_bytes(text)));
}

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
