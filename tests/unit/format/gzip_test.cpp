#include "format/gzip.h"

#include <random>

#include "gzip_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::gzip;
using testing::put_file;
using testing::TempDir;

std::string read(const std::filesystem::path& path, std::uint64_t max_bytes = 1 << 30) {
  return testing::to_text(MaybeGzip(path).read_up_to(max_bytes));
}

std::string random_text(std::size_t size) {
  std::mt19937 random(9);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() % 64);
  return text;
}

TEST(Gzip, PlainAndPackedGiveTheSame) {
  TempDir dir;
  for (const std::size_t size : {1, 2, 1000, (1 << 20) - 1, 1 << 20, 5'000'000}) {
    const std::string text = random_text(size);
    put_file(dir / "plain", text);
    put_file(dir / "packed", gzip(text));
    EXPECT_TRUE(read(dir / "plain") == text) << size;
    EXPECT_TRUE(read(dir / "packed") == text) << size;
  }
  put_file(dir / "packed", gzip(""));
  EXPECT_EQ(read(dir / "packed"), "");
}

TEST(Gzip, SeveralMembersFollowEachOther) {
  TempDir dir;
  put_file(dir / "x", gzip("one ") + gzip("") + gzip("two"));
  EXPECT_EQ(read(dir / "x"), "one two");
}

TEST(Gzip, NoMoreIsReadThanAskedFor) {
  TempDir dir;
  put_file(dir / "plain", "12345");
  put_file(dir / "packed", gzip("12345"));
  for (const char* name : {"plain", "packed"}) {
    MaybeGzip file(dir / name);
    EXPECT_EQ(testing::to_text(file.read_up_to(4)), "1234");
    GBC_EXPECT_ERROR(file.expect_end(), Errc::kCorrupt, "holds more than it declares");
    EXPECT_EQ(read(dir / name, 5), "12345");
  }
}

TEST(Gzip, EveryTruncationIsRefused) {
  TempDir dir;
  const std::string packed = gzip(random_text(300));
  for (std::size_t size = 0; size < packed.size(); ++size) {
    if (size == 1) continue;  // one byte is not yet gzip, but a plain file
    put_file(dir / "x", packed.substr(0, size));
    GBC_EXPECT_ERROR(read(dir / "x"), Errc::kTruncated, size == 0 ? "is empty" : "breaks off");
  }
}

TEST(Gzip, DamageIsFound) {
  TempDir dir;
  const std::string text = random_text(300), packed = gzip(text);
  for (std::size_t at = 10; at < packed.size(); ++at) {  // past the header, whose fields are free
    std::string damaged = packed;
    damaged[at] ^= 4;
    put_file(dir / "x", damaged);
    EXPECT_THROW(read(dir / "x"), Error) << at;
  }
  put_file(dir / "x", packed + "trailing");
  GBC_EXPECT_ERROR(read(dir / "x"), Errc::kCorrupt, "damaged gzip data");
}

}  // namespace
}  // namespace gbcompress
