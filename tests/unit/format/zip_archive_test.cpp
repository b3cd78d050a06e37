#include "format/zip_archive.h"

#include <random>

#include "support/files.h"
#include "zip_builder.h"

namespace gbcompress {
namespace {

using testing::to_bytes;
using testing::to_text;
using testing::zip;

/// An archive together with its bytes.
struct HeldArchive {
  explicit HeldArchive(const std::string& file) : bytes(to_bytes(file)), archive(bytes, "x.pt") {}
  testing::Bytes bytes;
  ZipArchive archive;
};

std::string read(const std::string& file, const std::string& name) {
  return to_text(HeldArchive{file}.archive.read(name));
}

TEST(ZipArchive, StoredEntries) {
  for (const bool wide : {false, true})
    for (const std::string& comment : {std::string(), std::string("PK\x05\x06 a comment")}) {
      const HeldArchive held(
          zip({{"a/one", "first"}, {"a/two", ""}, {"../three", "third"}}, wide, comment));
      EXPECT_EQ(held.archive.entries().size(), 3u);
      EXPECT_EQ(to_text(held.archive.read("a/one")), "first");
      EXPECT_EQ(to_text(held.archive.read("a/two")), "");
      EXPECT_EQ(to_text(held.archive.read("../three")), "third");
      EXPECT_TRUE(held.archive.contains("a/one"));
      EXPECT_FALSE(held.archive.contains("a"));
      GBC_EXPECT_ERROR(held.archive.read("a"), Errc::kCorrupt, "lacks the entry a");
    }
  EXPECT_TRUE(HeldArchive(zip({})).archive.entries().empty());
}

TEST(ZipArchive, EntriesThatMayNotBeRead) {
  const auto refuse = [](const testing::ZipEntry& entry, Errc code, const std::string& words) {
    GBC_EXPECT_ERROR(read(zip({entry}), "e"), code, words);
  };
  refuse({"e", "data", 0, 8}, Errc::kUnsupported, "is compressed");
  refuse({"e", "data", 1, 0}, Errc::kUnsupported, "is encrypted");
  refuse({"e", "data", 0, 0, 1}, Errc::kCorrupt, "CRC-32");
  refuse({"e", "data", 0, 0, 0, "f"}, Errc::kCorrupt, "another name");
}

TEST(ZipArchive, BrokenDirectories) {
  const std::string good = zip({{"e", "data"}});
  const std::size_t end = good.size() - 22;
  const auto changed = [&](std::size_t at, const std::string& bytes) {
    std::string file = good;
    return file.replace(at, bytes.size(), bytes);
  };
  using testing::le;
  GBC_EXPECT_ERROR(HeldArchive(zip({{"e", "1"}, {"e", "2"}})), Errc::kCorrupt, "entry e twice");
  GBC_EXPECT_ERROR(HeldArchive("no zip at all, though it is long enough"), Errc::kTruncated,
                   "lacks the directory");
  GBC_EXPECT_ERROR(HeldArchive(changed(end + 4, "\1")), Errc::kUnsupported, "several");
  GBC_EXPECT_ERROR(HeldArchive(changed(end + 10, le(std::uint16_t{2}))), Errc::kTruncated,
                   "ends at");
  GBC_EXPECT_ERROR(HeldArchive(changed(end + 10, le(std::uint16_t{0}))), Errc::kCorrupt,
                   "more than");
  GBC_EXPECT_ERROR(HeldArchive(changed(end + 12, le(~0u))), Errc::kCorrupt, "does not end");
  GBC_EXPECT_ERROR(HeldArchive(changed(end + 16, le(~0u))), Errc::kCorrupt, "does not end");
  const std::size_t central = good.find("PK\x01\x02");
  GBC_EXPECT_ERROR(HeldArchive(changed(central, "Q")), Errc::kCorrupt, "broken entry");
  GBC_EXPECT_ERROR(HeldArchive(changed(central + 20, le(5u))), Errc::kCorrupt, "another size");
  GBC_EXPECT_ERROR(read(changed(central + 42, le(1000u)), "e"), Errc::kCorrupt, "outside");
  GBC_EXPECT_ERROR(read(changed(central + 42, le(1u)), "e"), Errc::kCorrupt, "no local header");
  GBC_EXPECT_ERROR(read(changed(central + 20, le(500u) + le(500u)), "e"), Errc::kTruncated, "ends");
}

TEST(ZipArchive, Broken64BitRecords) {
  const std::string good = zip({{"e", "data"}}, true);
  const std::size_t locator = good.find("PK\x06\x07");
  for (const std::uint64_t at : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{locator - 1}}) {
    std::string file = good;
    file.replace(locator + 8, 8, testing::le(at));
    GBC_EXPECT_ERROR(HeldArchive{file}, Errc::kCorrupt, "64-bit end record");
  }
  std::string many = good;
  many.replace(good.find("PK\x06\x06") + 32, 8, testing::le(std::uint64_t{4'000'001}));
  GBC_EXPECT_ERROR(HeldArchive{many}, Errc::kLimit, "4 million");
}

TEST(ZipArchive, EveryTruncationIsRefused) {
  for (const bool wide : {false, true}) {
    const std::string good = zip({{"a", "first"}, {"b", "second"}}, wide);
    for (std::size_t size = 0; size < good.size(); ++size)
      GBC_EXPECT_ERROR(HeldArchive(good.substr(0, size)), Errc::kTruncated, "cut off");
  }
}

TEST(ZipArchive, DamagedDataIsNeverReturned) {
  std::mt19937 random(3);
  const std::string good = zip({{"a", "first"}, {"b", "second"}}, true);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = good;
    damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    try {
      const HeldArchive held(damaged);
      if (held.archive.contains("a")) {
        EXPECT_EQ(to_text(held.archive.read("a")), "first");
      }
      if (held.archive.contains("b")) {
        EXPECT_EQ(to_text(held.archive.read("b")), "second");
      }
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace gbcompress
