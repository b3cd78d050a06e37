#include "base/digest.h"
#include "unit/checkpoint/team.h"

namespace gbcompress {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests
namespace fs = std::filesystem;

TEST(Checkpoint, HoldsWhatWasSaved) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    TempDir dir;
    const auto sections = random_sections(seed, 20);
    const CheckpointFacts facts = {{"model digest", std::to_string(seed)}, {"settings.seed", ""}};
    CheckpointWriter writer(dir / "a/b", {});
    writer.save(seed, sections, facts);
    const CheckpointReader reader = CheckpointReader::open(dir / "a/b");
    EXPECT_EQ(reader.step(), seed);
    EXPECT_EQ(reader.world(), 1);
    EXPECT_EQ(reader.facts(), facts);
    EXPECT_EQ(reader.folder(), CheckpointWriter::folder_of(dir / "a/b", seed));
    expect_holds(reader, 0, sections);
  }
}

TEST(Checkpoint, ReadsSectionsLargerThanAPiece) {
  TempDir dir;
  const auto sections = random_sections(7, 3, 5 << 20);
  CheckpointWriter(dir.path(), {}).save(1, sections, {});
  expect_holds(CheckpointReader::open(dir.path()), 0, sections);
}

TEST(Checkpoint, TheSameContentGivesTheSameBytes) {
  TempDir one, two;
  const auto sections = random_sections(3);
  for (const TempDir* dir : {&one, &two})
    CheckpointWriter(dir->path(), {}).save(5, sections, {{"a", "b"}});
  for (const char* name : {"manifest", "rank-00000.shard"})
    EXPECT_EQ(get_file(one / "step-000000000005" / name),
              get_file(two / "step-000000000005" / name));
  EXPECT_EQ(CheckpointReader::open(one.path()).identity(),
            CheckpointReader::open(two.path()).identity());
}

TEST(Checkpoint, IdentityDependsOnEveryByte) {
  TempDir one, two;
  CheckpointWriter(one.path(), {})
      .save(5, std::vector{CheckpointSection{"a", to_bytes("abc")}}, {});
  CheckpointWriter(two.path(), {})
      .save(5, std::vector{CheckpointSection{"a", to_bytes("abd")}}, {});
  EXPECT_NE(CheckpointReader::open(one.path()).identity(),
            CheckpointReader::open(two.path()).identity());
}

/// The page docs/reference/checkpoints.md, by hand.
TEST(Checkpoint, LiesOnTheDiskAsDocumented) {
  TempDir dir;
  CheckpointWriter(dir.path(), {})
      .save(1200, std::vector{CheckpointSection{"w", to_bytes("abc")}}, {{"m", "1"}});
  EXPECT_EQ(listing(dir.path()), "lock\nstep-000000001200\n");
  EXPECT_EQ(listing(dir / "step-000000001200"), "manifest\nrank-00000.shard\n");
  // {"n": 1200, "r": 0, "s": [{"b": 3, "n": "w", "x": 0x78af5f94892f3950}]}
  const std::string table(
      "\xa3\x61n\x19\x04\xb0\x61r\x00\x61s\x81\xa3\x61"
      "b\x03\x61n\x61w\x61x"
      "\x1b\x78\xaf\x5f\x94\x89\x2f\x39\x50",
      31);
  ASSERT_EQ(table.size(), 31u);
  const std::string head = std::string("GBCS\1\0\0\0\x36\0\0\0\0\0\0\0\x1f\0\0\0", 20) + table;
  EXPECT_EQ(get_file(dir / "step-000000001200/rank-00000.shard"), head + "abc");
  // {"f": {"m": "1"}, "n": 1200, "s": [{"b": 54, "d": "..."}]}
  const std::string manifest = std::string("GBCM\1\0\0\0", 8) +
                               "\xa3\x61"
                               "f\xa1\x61m\x61"
                               "1" +
                               "\x61n\x19\x04\xb0\x61s\x81\xa2\x61"
                               "b\x18\x36\x61"
                               "d\x78\x40" +
                               to_hex(sha256(to_bytes(head)));
  EXPECT_EQ(get_file(dir / "step-000000001200/manifest"), manifest + sha256(to_bytes(manifest)));
}

TEST(Checkpoint, OpensTheNewestOrTheOneNamed) {
  TempDir dir;
  CheckpointWriter writer(dir.path(), {}, {.keep = 3});
  for (int step : {10, 20, 30}) writer.save(step, random_sections(step), {});
  EXPECT_EQ(list_checkpoints(dir.path()), (std::vector<std::int64_t>{10, 20, 30}));
  EXPECT_EQ(CheckpointReader::open(dir.path()).step(), 30);
  const auto named = CheckpointReader::open(dir / "step-000000000020/");
  EXPECT_EQ(named.step(), 20);
  EXPECT_EQ(named.folder().filename(), "step-000000000020");
}

TEST(Checkpoint, MissingOnesAreNotFound) {
  TempDir dir;
  EXPECT_TRUE(list_checkpoints(dir / "none").empty());
  GBC_EXPECT_ERROR(CheckpointReader::open(dir / "none"), Errc::kNotFound, "holds no checkpoint");
  fs::create_directory(dir / "step-000000000005.tmp-a-1");
  fs::create_directory(dir / "step-5");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir.path()), Errc::kNotFound, "holds no checkpoint");
  put_file(dir / "file", "text");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir / "file"), Errc::kIo, "cannot be read");
}

TEST(Checkpoint, WrongQuestionsAreRefused) {
  TempDir dir;
  CheckpointWriter(dir.path(), {})
      .save(1, std::vector{CheckpointSection{"a", to_bytes("abc")}}, {});
  const auto reader = CheckpointReader::open(dir.path());
  EXPECT_TRUE(reader.has(0, "a"));
  EXPECT_FALSE(reader.has(0, "b"));
  GBC_EXPECT_ERROR(reader.read(0, "b"), Errc::kNotFound, "has no section b");
  for (int shard : {-1, 1}) {
    GBC_EXPECT_ERROR(reader.read(shard, "a"), Errc::kUsage, "has shards 0 to 0");
    GBC_EXPECT_ERROR(reader.sections(shard), Errc::kUsage, "has shards 0 to 0");
  }
  Bytes room(4);
  GBC_EXPECT_ERROR(reader.read_into(0, "a", room), Errc::kShapeMismatch, "has 3 bytes");
}

TEST(Facts, OthersAreRefusedByNameWithBothValues) {
  TempDir dir;
  CheckpointWriter(dir.path(), {})
      .save(1, {}, {{"model", "abc"}, {"data", "d1"}, {"train.lr", "0.1"}, {"world", "4"}});
  const auto reader = CheckpointReader::open(dir.path());
  reader.require({});
  reader.require({{"model", "abc"}, {"data", "d1"}, {"train.lr", "0.1"}});
  GBC_EXPECT_ERROR(reader.require({{"model", "abd"}, {"data", "d1"}}), Errc::kUsage,
                   "these differ: model (in the checkpoint 'abc', now 'abd');");
  GBC_EXPECT_ERROR(reader.require({{"data", ""}, {"train.lr", "0.2"}}), Errc::kUsage,
                   "data (in the checkpoint 'd1', now ''), train.lr (in the checkpoint '0.1', now "
                   "'0.2')");
  GBC_EXPECT_ERROR(reader.require({{"seed", "1"}}), Errc::kUsage,
                   "seed (not in the checkpoint, now '1')");
}

TEST(Facts, LongAndManyOnesAreShortened) {
  TempDir dir;
  const std::string text(500, 'x');
  CheckpointFacts stored = {{"settings", text + "A" + text}}, now = {{"settings", text + "B\n"}};
  for (int i = 0; i < 20; ++i) {
    stored["t" + std::to_string(i)] = "0";
    now["t" + std::to_string(i)] = "1";
  }
  CheckpointWriter(dir.path(), {}).save(1, {}, stored);
  const auto reader = CheckpointReader::open(dir.path());
  try {
    reader.require(now);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    const std::string x20(20, 'x');
    EXPECT_NE(message.find("'..." + x20 + "A"), std::string::npos) << message;
    EXPECT_NE(message.find("'..." + x20 + "B\\x0a'"), std::string::npos) << message;
    EXPECT_NE(message.find(" and 13 more;"), std::string::npos) << message;
    EXPECT_LT(message.size(), 1000u);
  }
}

TEST(Facts, EveryPrefixIsADifference) {
  TempDir dir;
  CheckpointWriter(dir.path(), {}).save(1, {}, {{"a", "value"}});
  const auto reader = CheckpointReader::open(dir.path());
  for (const char* other : {"valu", "values", "", "Value"})
    GBC_EXPECT_ERROR(reader.require({{"a", other}}), Errc::kUsage, "in the checkpoint 'value'");
}

}  // namespace
}  // namespace gbcompress
