#include "format/dataset/cifar.h"

#include <algorithm>

#include "gzip_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::gzip;
using testing::put_file;
using testing::TempDir;

std::string record(int label, char first) {
  std::string pixels(kCifarPixels, '\x80');
  pixels[0] = first;
  return static_cast<char>(label) + pixels;
}

struct Cifar : ::testing::Test {
  CifarRecords read(const std::string& file) {
    put_file(dir / "x", file);
    return read_cifar10(dir / "x");
  }
  TempDir dir;
};

TEST_F(Cifar, PlainAndPacked) {
  const std::string file = record(3, 'a') + record(0, 'b') + record(9, 'c');
  for (const std::string& stored : {file, gzip(file)}) {
    const auto records = read(stored);
    EXPECT_EQ(records.labels, (std::vector<std::uint8_t>{3, 0, 9}));
    ASSERT_EQ(records.pixels.size(), 3 * kCifarPixels);
    EXPECT_EQ(records.pixels[0], std::byte{'a'});
    EXPECT_EQ(records.pixels[kCifarPixels], std::byte{'b'});
    EXPECT_EQ(records.pixels[3 * kCifarPixels - 1], std::byte{0x80});
  }
}

TEST_F(Cifar, BadFiles) {
  const std::string good = record(1, 'a');
  for (const bool packed : {false, true}) {
    const auto bad = [&](const std::string& file) { return read(packed ? gzip(file) : file); };
    GBC_EXPECT_ERROR(bad(good + record(10, 'a')), Errc::kCorrupt, "record 1 has the label 10");
    GBC_EXPECT_ERROR(bad(good + "\1"), Errc::kTruncated, "record 1 has 1 bytes");
    GBC_EXPECT_ERROR(bad(good.substr(1)), Errc::kTruncated, "record 0 has 3072 bytes");
  }
  GBC_EXPECT_ERROR(read(""), Errc::kTruncated, "is empty");
  GBC_EXPECT_ERROR(read(gzip("")), Errc::kTruncated, "no record");
  GBC_EXPECT_ERROR(read_cifar10(dir / "none"), Errc::kNotFound, "does not exist");
}

TEST_F(Cifar, ABombOfGoodRecordsStopsAtTheLimit) {
  // 100,001 records in about a third of a megabyte.
  GBC_EXPECT_ERROR(read(gzip(record(0, '\0'), kMaxCifarRecords + 1)), Errc::kLimit,
                   "more than 100,000");
}

TEST_F(Cifar, TheTestPictures) {
  const std::filesystem::path file = GBC_SOURCE_DIR "/../shared/data/cifar10-jpeg/test.bin.gz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is absent";
  const auto records = read_cifar10(file);
  // Worked out with Python's gzip.
  ASSERT_EQ(records.labels.size(), 2500u);
  const std::vector<int> counts{243, 240, 252, 255, 252, 255, 261, 250, 255, 237};
  for (std::size_t label = 0; label < counts.size(); ++label)
    EXPECT_EQ(std::count(records.labels.begin(), records.labels.end(), label), counts[label]);
  long sum = 0;
  for (const std::byte pixel : records.pixels) sum += std::to_integer<long>(pixel);
  EXPECT_EQ(sum, 935'540'848);
}

}  // namespace
}  // namespace gbcompress
