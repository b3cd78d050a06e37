#include <sys/stat.h>

#include "unit/checkpoint/team.h"

namespace gbcompress {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests
namespace fs = std::filesystem;

constexpr int kWorld = 3;
const char* const kNewer = "step-000000000020";

/// Two checkpoints of three ranks; the newer one is what the tests damage.
class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& failure : as_ranks(kWorld, [&](const CheckpointRanks& ranks) {
           CheckpointWriter writer(dir_.path(), ranks);
           for (int step : {10, 20}) writer.save(step, sections(step, ranks.rank), {{"m", "1"}});
         }))
      ASSERT_FALSE(failure);
  }
  static std::vector<CheckpointSection> sections(int step, int rank) {
    auto result = random_sections(static_cast<std::uint32_t>(100 * step + rank), 3, 60);
    result.push_back({"always", to_bytes("there")});
    return result;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> files = {dir_ / kNewer / "manifest"};
    for (int rank = 0; rank < kWorld; ++rank)
      files.push_back(dir_ / kNewer / ("rank-0000" + std::to_string(rank) + ".shard"));
    return files;
  }
  /// The older one is opened and whole, and a message of one line says why.
  void expect_fallback(const std::string& what) {
    std::vector<std::string> said;
    try {
      const auto reader = CheckpointReader::open(
          dir_.path(), {}, [&](const std::string& message) { said.push_back(message); });
      ASSERT_EQ(reader.step(), 10) << what;
      for (int rank = 0; rank < kWorld; ++rank) expect_holds(reader, rank, sections(10, rank));
    } catch (const Error& error) {
      FAIL() << what << ": " << error.what();
    }
    ASSERT_EQ(said.size(), 1u) << what;
    EXPECT_NE(said[0].find(kNewer), std::string::npos) << what << ": " << said[0];
    EXPECT_NE(said[0].find("; step 10 is used instead"), std::string::npos) << said[0];
    EXPECT_EQ(said[0].find('\n'), std::string::npos) << said[0];
  }
  TempDir dir_;
};

TEST_F(Damage, NoneIsTheNewest) {
  const auto reader = CheckpointReader::open(
      dir_.path(), {}, [](const std::string& message) { ADD_FAILURE() << message; });
  EXPECT_EQ(reader.step(), 20);
  EXPECT_EQ(reader.world(), kWorld);
  for (int rank = 0; rank < kWorld; ++rank) expect_holds(reader, rank, sections(20, rank));
}

TEST_F(Damage, EveryFlippedBitOfEveryFile) {
  for (const fs::path& file : files()) {
    const std::string good = get_file(file);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      put_file(file, bad);
      expect_fallback(file.filename().string() + ", bit " + std::to_string(bit));
      if (HasFailure()) return;
    }
    put_file(file, good);
  }
}

TEST_F(Damage, EveryTruncationAndMore) {
  for (const fs::path& file : files()) {
    const std::string good = get_file(file);
    for (std::size_t n = 0; n < good.size(); ++n) {
      put_file(file, good.substr(0, n));
      expect_fallback(file.filename().string() + ", " + std::to_string(n) + " bytes");
      if (HasFailure()) return;
    }
    for (const std::string& bad : {good + '\0', good + good, std::string(good.size(), '\0')}) {
      put_file(file, bad);
      expect_fallback(file.filename().string() + " made longer");
    }
    put_file(file, good);
  }
}

TEST_F(Damage, EveryFileMissingOrOfAnotherKind) {
  for (const fs::path& file : files()) {
    const std::string good = get_file(file);
    fs::remove(file);
    expect_fallback(file.filename().string() + " is missing");
    fs::create_directory(file);
    expect_fallback(file.filename().string() + " is a folder");
    fs::remove(file);
    fs::create_symlink("nowhere", file);
    expect_fallback(file.filename().string() + " leads nowhere");
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    expect_fallback(file.filename().string() + " is a pipe");
    fs::remove(file);
    put_file(file, good);
  }
}

TEST_F(Damage, FilesOfOtherRanksAndSteps) {
  const auto all = files();
  const std::string one = get_file(all[1]), two = get_file(all[2]);
  put_file(all[1], two);
  expect_fallback("a shard twice");
  put_file(all[2], one);
  expect_fallback("shards swapped");
  put_file(all[1], one);
  for (const fs::path& file : all) {
    const std::string good = get_file(file);
    put_file(file, get_file(dir_ / "step-000000000010" / file.filename().string()));
    expect_fallback(file.filename().string() + " of another step");
    put_file(file, good);
  }
  fs::remove_all(dir_ / kNewer);
  fs::copy(dir_ / "step-000000000010", dir_ / kNewer);
  expect_fallback("a whole folder of another step");
}

TEST_F(Damage, ACheckpointThatIsNoFolder) {
  fs::remove_all(dir_ / kNewer);
  put_file(dir_ / kNewer, "text");
  expect_fallback("a file");
  fs::remove(dir_ / kNewer);
  fs::create_directory(dir_ / kNewer);
  expect_fallback("an empty folder");
}

TEST_F(Damage, FilesTooManyDoNoHarm) {
  put_file(dir_ / kNewer / "notes.txt", "mine");
  put_file(dir_ / kNewer / "rank-00003.shard", "more");
  put_file(dir_ / "step-000000000099.tmp-x", "rest");
  fs::create_directory(dir_ / "step-99");
  fs::create_directory(dir_ / "step-0000000000999");
  EXPECT_EQ(CheckpointReader::open(dir_.path()).step(), 20);
}

TEST_F(Damage, BothAreRefusedWithBothReasons) {
  put_file(dir_ / kNewer / "manifest", "");
  fs::remove(dir_ / "step-000000000010" / "rank-00001.shard");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir_.path()), Errc::kCorrupt, "/manifest has only 0");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir_.path()), Errc::kCorrupt,
                   "rank-00001.shard does not exist");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir_ / kNewer), Errc::kCorrupt, "is whole");
}

/// Ranks look at different shards; what one of them finds must turn all of them.
TEST_F(Damage, OneRankFindsItAllFallBack) {
  for (int damaged = 0; damaged < kWorld; ++damaged) {
    const fs::path file = files()[static_cast<std::size_t>(damaged + 1)];
    const std::string good = get_file(file);
    std::string bad = good;
    bad.back() = static_cast<char>(bad.back() ^ 1);
    put_file(file, bad);
    for (int world : {1, 2, 4}) {
      std::vector<std::string> said(4);
      for (const auto& failure : as_ranks(world, [&](const CheckpointRanks& ranks) {
             const auto reader =
                 CheckpointReader::open(dir_.path(), ranks, [&](const std::string& message) {
                   said[static_cast<std::size_t>(ranks.rank)] = message;
                 });
             EXPECT_EQ(reader.step(), 10);
           }))
        EXPECT_FALSE(failure);
      for (int rank = 0; rank < world; ++rank)
        EXPECT_NE(said[static_cast<std::size_t>(rank)].find(rank == damaged % world
                                                                ? "the digest of always"
                                                                : "as another rank reported"),
                  std::string::npos)
            << said[static_cast<std::size_t>(rank)];
    }
    put_file(file, good);
  }
}

TEST_F(Damage, RanksThatSeeDifferentFoldersEndTogether) {
  TempDir empty;
  const auto failures = as_ranks(2, [&](const CheckpointRanks& ranks) {
    CheckpointReader::open(ranks.rank == 0 ? dir_.path() : empty.path(), ranks);
  });
  message_of(failures[0], Errc::kNotFound);
  message_of(failures[1], Errc::kNotFound);
}

TEST_F(Damage, WhileReadingIsNoticed) {
  const auto reader = CheckpointReader::open(dir_.path());
  const fs::path file = files()[2];
  std::string bad = get_file(file);
  bad.back() = static_cast<char>(bad.back() ^ 4);
  put_file(file, bad);
  GBC_EXPECT_ERROR(reader.read(1, "always"), Errc::kCorrupt, "the digest of always does not fit");
  put_file(file, bad.substr(0, bad.size() - 1));
  GBC_EXPECT_ERROR(reader.read(1, "always"), Errc::kTruncated, "more was expected");
  fs::remove(file);
  GBC_EXPECT_ERROR(reader.read(1, "always"), Errc::kNotFound, "does not exist");
}

}  // namespace
}  // namespace gbcompress
