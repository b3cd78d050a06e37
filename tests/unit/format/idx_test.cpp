#include "format/dataset/idx.h"

#include <sys/resource.h>

#include <algorithm>

#include "gzip_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::gzip;
using testing::put_file;
using testing::TempDir;

std::string idx(std::vector<std::uint32_t> shape, const std::string& values, int type = 8) {
  std::string file{'\0', '\0', static_cast<char>(type), static_cast<char>(shape.size())};
  for (const std::uint32_t side : shape)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(side >> shift);
  return file + values;
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

struct Idx : ::testing::Test {
  IdxArray read(const std::string& file) {
    put_file(dir / "x", file);
    return read_idx(dir / "x");
  }
  TempDir dir;
};

TEST_F(Idx, PlainAndPackedOfEveryRank) {
  const std::vector<std::vector<std::uint32_t>> shapes{{24}, {2, 12}, {2, 3, 4}, {4, 3, 2, 1}};
  const std::string values = "abcdefghijklmnopqrstuvw\xff";
  for (const auto& shape : shapes)
    for (const bool packed : {false, true}) {
      const auto array = read(packed ? gzip(idx(shape, values)) : idx(shape, values));
      EXPECT_EQ(array.shape, (std::vector<std::int64_t>(shape.begin(), shape.end())));
      EXPECT_EQ(testing::to_text(array.values), values);
    }
  EXPECT_TRUE(read(idx({0, 28, 28}, "")).values.empty());
}

TEST_F(Idx, BadFiles) {
  for (const bool packed : {false, true}) {
    const auto bad = [&](const std::string& file) { return read(packed ? gzip(file) : file); };
    GBC_EXPECT_ERROR(bad("PNG?"), Errc::kCorrupt, "not an IDX file");
    GBC_EXPECT_ERROR(bad(idx({2}, "ab", 0x0d)), Errc::kUnsupported, "type 13");
    GBC_EXPECT_ERROR(bad(idx({}, "")), Errc::kCorrupt, "no dimensions");
    GBC_EXPECT_ERROR(bad(idx({1, 1, 1, 1, 1}, "a")), Errc::kLimit, "5 dimensions");
    GBC_EXPECT_ERROR(bad(idx({3}, "ab")), Errc::kTruncated, "1 bytes before");
    GBC_EXPECT_ERROR(bad(idx({3}, "abcd")), Errc::kCorrupt, "more than it declares");
    GBC_EXPECT_ERROR(bad(idx({1u << 31, 4}, "ab")), Errc::kLimit, "4 GiB");
    GBC_EXPECT_ERROR(bad(idx({~0u, ~0u, ~0u, ~0u}, "ab")), Errc::kLimit, "too large");
    GBC_EXPECT_ERROR(bad(idx({2, 3}, "").substr(0, 7)), Errc::kTruncated, "before");
  }
  GBC_EXPECT_ERROR(read(""), Errc::kTruncated, "is empty");
  GBC_EXPECT_ERROR(read_idx(dir / "none"), Errc::kNotFound, "does not exist");
  GBC_EXPECT_ERROR(read_idx(dir.path()), Errc::kIo, "is a folder");
}

TEST_F(Idx, EveryTruncationIsRefused) {
  for (const std::string& file : {idx({2, 3}, "abcdef"), gzip(idx({2, 3}, "abcdef"))})
    for (std::size_t size = 0; size < file.size(); ++size)
      GBC_EXPECT_ERROR(read(file.substr(0, size)), Errc::kTruncated, "x");
}

TEST_F(Idx, BombsAndEmptyPromisesTakeNoMemory) {
  const std::string megabyte(1 << 20, '\0');
  const std::string bomb = gzip(idx({10}, "0123456789")) + gzip(megabyte, 512);
  const std::string promise = idx({~0u}, "few");
  const long before = peak_kib();
  GBC_EXPECT_ERROR(read(bomb), Errc::kCorrupt, "more than it declares");
  GBC_EXPECT_ERROR(read(promise), Errc::kTruncated, "before what it declares");
  GBC_EXPECT_ERROR(read(gzip(promise)), Errc::kTruncated, "before what it declares");
  EXPECT_LT(peak_kib() - before, 32 * 1024);
}

TEST_F(Idx, TheTestDigits) {
  const std::filesystem::path mnist = GBC_SOURCE_DIR "/../shared/data/mnist";
  if (!std::filesystem::is_directory(mnist)) GTEST_SKIP() << mnist << " is absent";
  const auto labels = read_idx(mnist / "t10k-labels-idx1-ubyte.gz");
  const auto images = read_idx(mnist / "t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(labels.shape, (std::vector<std::int64_t>{10'000}));
  EXPECT_EQ(images.shape, (std::vector<std::int64_t>{10'000, 28, 28}));
  // How often each digit is in MNIST's test set, and the sum of its pixels.
  const std::vector<int> counts{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
  for (std::size_t digit = 0; digit < counts.size(); ++digit)
    EXPECT_EQ(std::count(labels.values.begin(), labels.values.end(), std::byte(digit)),
              counts[digit]);
  long sum = 0;
  for (const std::byte pixel : images.values) sum += std::to_integer<long>(pixel);
  EXPECT_EQ(sum, 264'923'200);
}

}  // namespace
}  // namespace gbcompress
