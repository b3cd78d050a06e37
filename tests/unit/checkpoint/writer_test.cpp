#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "unit/checkpoint/team.h"

namespace gbcompress {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests
namespace fs = std::filesystem;

std::string step(std::int64_t n) {
  return CheckpointWriter::folder_of("", n).filename().string() + "\n";
}

void damage(const fs::path& folder) { put_file(folder / "manifest", "damaged"); }

TEST(Writer, KeepsTheNewest) {
  for (int keep : {2, 3, 5}) {
    TempDir dir;
    CheckpointWriter writer(dir.path(), {}, {.keep = keep});
    for (int i = 1; i <= 7; ++i) {
      writer.save(10 * i, {}, {});
      const auto steps = list_checkpoints(dir.path());
      ASSERT_EQ(static_cast<int>(steps.size()), std::min(i, keep));
      for (std::size_t k = 0; k < steps.size(); ++k)
        EXPECT_EQ(steps[steps.size() - 1 - k], 10 * (i - static_cast<int>(k)));
    }
  }
}

TEST(Writer, FewerThanTwoAreRefused) {
  TempDir dir;
  for (int keep : {1, 0, -3})
    GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), {}, {.keep = keep}), Errc::kUsage,
                     "at least 2 checkpoints are kept");
}

TEST(Writer, TheSameStepAgainReplacesIt) {
  TempDir dir;
  {
    CheckpointWriter writer(dir.path(), {});
    for (std::uint32_t i : {1u, 2u, 3u}) {
      writer.save(5, random_sections(i), {});
      expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(i));
      EXPECT_EQ(listing(dir.path()), "lock\n" + step(5));
    }
  }
  CheckpointWriter writer(dir.path(), {}, {.resumed_from = dir / "step-000000000005"});
  writer.save(5, random_sections(4), {});
  expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(4));
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(5));
}

TEST(Writer, WhateverBearsTheNameIsReplaced) {
  TempDir dir;
  CheckpointWriter writer(dir.path(), {});
  put_file(dir / "step-000000000001", "a file");
  fs::create_directories(dir / "step-000000000002");
  fs::create_directories(dir / "step-000000000003");
  put_file(dir / "step-000000000003/x", "not empty");
  fs::create_symlink("nowhere", dir / "step-000000000004");
  for (int i : {1, 2, 3, 4}) {
    writer.save(i, random_sections(i), {});
    EXPECT_EQ(CheckpointReader::open(CheckpointWriter::folder_of(dir.path(), i)).step(), i);
  }
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(3) + step(4));
}

TEST(Writer, StepsDoNotGoBack) {
  TempDir dir;
  fs::path folder;
  {
    CheckpointWriter writer(dir.path(), {});
    GBC_EXPECT_ERROR(writer.save(-1, {}, {}), Errc::kUsage, "steps from 0 to 999999999999");
    GBC_EXPECT_ERROR(writer.save(1'000'000'000'000, {}, {}), Errc::kUsage, "steps from 0");
    writer.save(10, {}, {});
    GBC_EXPECT_ERROR(writer.save(9, {}, {}), Errc::kUsage, "steps from 10 to");
    folder = CheckpointReader::open(dir.path()).folder();
  }
  CheckpointWriter writer(dir.path(), {}, {.resumed_from = folder});
  GBC_EXPECT_ERROR(writer.save(9, {}, {}), Errc::kUsage, "steps from 10 to");
  writer.save(999'999'999'999, {}, {});
  EXPECT_EQ(CheckpointReader::open(dir.path()).step(), 999'999'999'999);
}

TEST(Writer, AnotherRunsFolderIsRefused) {
  TempDir dir, other;
  CheckpointWriter(dir.path(), {}).save(10, {}, {});
  CheckpointWriter(other.path(), {}).save(10, {}, {});
  GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), {}), Errc::kExists,
                   "holds checkpoints up to step 10 of a run that this one does not continue");
  const CheckpointOptions elsewhere{.resumed_from = other / "step-000000000010"};
  GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), {}, elsewhere), Errc::kExists, "choose another");
  CheckpointWriter(dir / "new", {}, elsewhere).save(11, {}, {});
  EXPECT_EQ(CheckpointReader::open(dir / "new").step(), 11);
}

TEST(Writer, TwoRunsNeverShareAFolder) {
  TempDir dir;
  {
    CheckpointWriter writer(dir.path(), {});
    GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), {}), Errc::kExists, "another run saves");
    CheckpointWriter moved = std::move(writer);
    GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), {}), Errc::kExists, "/lock` names it");
    moved.save(1, {}, {});
  }
  CheckpointWriter(dir.path(), {}, {.resumed_from = dir / "step-000000000001"}).save(2, {}, {});
}

TEST(Writer, RestsOfEarlierRunsGoAtTheStart) {
  TempDir dir;
  for (const char* rest : {"step-000000000001.tmp-123-4", "step-000000000001.tmp-123-4-old"}) {
    fs::create_directory(dir / rest);
    put_file(dir / rest / "rank-00000.shard", "half");
    put_file(dir / rest / "manifest", "half");
  }
  put_file(dir / "step-000000000003.tmp-file", "");
  fs::create_directory(dir / "mine");
  put_file(dir / "step-3.tmp-x", "not ours");
  put_file(dir / "step-000000000003tmp", "not ours");
  CheckpointWriter writer(dir.path(), {});
  EXPECT_EQ(listing(dir.path()), "lock\nmine\nstep-000000000003tmp\nstep-3.tmp-x\n");
}

TEST(Writer, WhatCannotBeRemovedIsToldAndLeft) {
  TempDir dir;
  fs::create_directories(dir / "step-000000000001.tmp-a-1/folder of somebody");
  std::vector<std::string> said;
  CheckpointWriter writer(dir.path(), {},
                          {.warn = [&](const std::string& text) { said.push_back(text); }});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("tmp-a-1 cannot be removed: Directory not empty"), std::string::npos)
      << said[0];
  EXPECT_TRUE(fs::exists(dir / "step-000000000001.tmp-a-1/folder of somebody"));
  writer.save(1, {}, {});
  EXPECT_EQ(CheckpointReader::open(dir.path()).step(), 1);
}

TEST(Writer, SurplusOfAnInterruptedRunGoesAtTheStart) {
  TempDir dir;
  CheckpointWriter(dir.path(), {}, {.keep = 4}).save(1, {}, {});
  for (int i : {1, 2, 3}) {
    const fs::path from = CheckpointReader::open(dir.path()).folder();
    CheckpointWriter(dir.path(), {}, {.keep = 4, .resumed_from = from}).save(i + 1, {}, {});
  }
  EXPECT_EQ(list_checkpoints(dir.path()).size(), 4u);
  CheckpointWriter writer(dir.path(), {}, {.resumed_from = dir / "step-000000000004"});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(3) + step(4));
}

/// With the newest ones damaged, the one resumed from is precious until two new ones are there.
TEST(Writer, WholeOnesOutliveDamagedOnes) {
  TempDir dir;
  {
    CheckpointWriter writer(dir.path(), {}, {.keep = 4});
    for (int i : {10, 20, 30, 40}) writer.save(i, {}, {});
  }
  damage(dir / "step-000000000030");
  damage(dir / "step-000000000040");
  const auto reader = CheckpointReader::open(dir.path());
  ASSERT_EQ(reader.step(), 20);
  CheckpointWriter writer(dir.path(), {}, {.resumed_from = reader.folder()});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(10) + step(20) + step(30) + step(40));
  writer.save(25, {}, {});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(20) + step(25));
  writer.save(40, {}, {});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(25) + step(40));
}

/// The one resumed from, saved again, is still only one.
TEST(Writer, DamagedOnesStayWhileOneIsWhole) {
  TempDir dir;
  {
    CheckpointWriter writer(dir.path(), {}, {.keep = 3});
    for (int i : {10, 20, 30}) writer.save(i, {}, {});
  }
  damage(dir / "step-000000000020");
  damage(dir / "step-000000000030");
  CheckpointWriter writer(dir.path(), {}, {.resumed_from = dir / "step-000000000010"});
  writer.save(10, {}, {});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(10) + step(20) + step(30));
  writer.save(15, {}, {});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(10) + step(15));
}

TEST(Writer, ADamagedOneIsReplacedWhenItsStepComesAgain) {
  TempDir dir;
  {
    CheckpointWriter writer(dir.path(), {});
    for (int i : {10, 20}) writer.save(i, random_sections(i), {});
  }
  damage(dir / "step-000000000020");
  const fs::path from = CheckpointReader::open(dir.path()).folder();
  CheckpointWriter(dir.path(), {}, {.resumed_from = from}).save(20, random_sections(77), {});
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(10) + step(20));
  expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(77));
}

TEST(Writer, ContentThatIsNotAllowedLeavesTheFolderAsItWas) {
  TempDir dir;
  CheckpointWriter writer(dir.path(), {});
  writer.save(1, random_sections(1), {});
  const auto refuse = [&](const std::vector<CheckpointSection>& sections,
                          const CheckpointFacts& facts, Errc code, const char* words) {
    GBC_EXPECT_ERROR(writer.save(2, sections, facts), code, words);
    EXPECT_EQ(listing(dir.path()), "lock\n" + step(1)) << words;
  };
  refuse({{"", {}}}, {}, Errc::kUsage, "'' cannot be a section's name");
  refuse({{"a\nb", {}}}, {}, Errc::kUsage, "'a\\x0ab' cannot be");
  refuse({{std::string(513, 'a'), {}}}, {}, Errc::kUsage, "cannot be a section's name");
  refuse({{"\xff", {}}}, {}, Errc::kUsage, "cannot be a section's name");
  refuse({{"a", {}}, {"a", {}}}, {}, Errc::kUsage, "two sections are named a");
  refuse(std::vector<CheckpointSection>(1'000'001), {}, Errc::kLimit, "1000001 sections");
  refuse({}, {{"", "x"}}, Errc::kUsage, "the fact ''");
  refuse({}, {{"x", "\xc0\x80"}}, Errc::kUsage, "the fact 'x' is not UTF-8");
  refuse({}, {{"x", std::string((1 << 20) + 1, 'a')}}, Errc::kLimit, "store its digest");
  CheckpointFacts many, large;
  for (int i = 0; i <= 10'000; ++i) many[std::to_string(i)] = "";
  for (int i = 0; i < 17; ++i) large[std::to_string(i)] = std::string(1 << 20, 'a');
  refuse({}, many, Errc::kLimit, "more than 10000 facts");
  refuse({}, large, Errc::kLimit, "store digests instead");
  writer.save(2, std::vector<CheckpointSection>{{std::string(512, 'a'), {}}, {"../../x", {}}}, {});
  EXPECT_TRUE(CheckpointReader::open(dir.path()).has(0, "../../x"));
}

TEST(Writer, FoldersThatCannotBeAreNamed) {
  TempDir dir;
  put_file(dir / "file", "");
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "file", {}), Errc::kIo, "file cannot be made: Not a");
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "file/a/b", {}), Errc::kIo, "cannot be made: Not a");
  GBC_EXPECT_ERROR(CheckpointWriter("/proc/gbcompress/a", {}), Errc::kIo, "/proc/gbcompress");
  GBC_EXPECT_ERROR(CheckpointWriter("", {}), Errc::kIo, "cannot be made");
  fs::create_directories(dir / "busy/lock");
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "busy", {}), Errc::kIo, "lock cannot be opened");
  fs::create_directory(dir / "linked");
  fs::create_symlink(dir / "file", dir / "linked/lock");
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "linked", {}), Errc::kIo, "lock cannot be opened");
}

TEST(Writer, AReadOnlyFolderIsNamed) {
  TempDir dir;
  fs::create_directory(dir / "read-only");
  fs::permissions(dir / "read-only", fs::perms{0555});
  // Modes do not hold root back.
  const bool root = ::geteuid() == 0;
  fs::permissions(dir.path(), fs::perms{0755});
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "root cannot become another user here";
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "read-only", {}), Errc::kIo,
                   "Permission denied; choose a folder that may be written to");
  GBC_EXPECT_ERROR(CheckpointWriter(dir / "read-only/new", {}), Errc::kIo, "Permission denied");
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
}

/// Lets the agreements of a save through one at a time.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened{open.get_future()};
  std::atomic<bool> closed{false};
  CheckpointRanks ranks() {
    return {.rank = 0, .world = 2, .run = "gate", .agree = [this](bool ok) {
              if (closed) opened.wait();
              return ok;
            }};
  }
};

TEST(Background, SavesWhileTheCallerGoesOn) {
  TempDir dir;
  Gate gate;
  // A second rank that always agrees but never writes: the save ends in an error, in the
  // background.
  BackgroundCheckpointWriter writer(dir.path(), gate.ranks());
  EXPECT_FALSE(writer.busy());
  gate.closed = true;
  writer.save(1, random_sections(1), {});
  EXPECT_TRUE(writer.busy());  // and here we are, though nobody has let it through
  gate.open.set_value();
  GBC_EXPECT_ERROR(writer.finish(), Errc::kNotFound, "rank-00001.shard does not exist");
  EXPECT_FALSE(writer.busy());
  writer.finish();  // told once
  EXPECT_EQ(listing(dir.path()), "lock\n");
}

TEST(Background, EverySaveIsThereAfterTheNext) {
  TempDir dir;
  BackgroundCheckpointWriter writer(dir.path(), {});
  for (int i = 1; i <= 5; ++i) {
    writer.save(i, random_sections(i), {{"i", std::to_string(i)}});
    if (i > 1) {
      EXPECT_GE(CheckpointReader::open(dir.path()).step(), i - 1);
    }
  }
  writer.finish();
  const auto reader = CheckpointReader::open(dir.path());
  EXPECT_EQ(reader.facts().at("i"), "5");
  expect_holds(reader, 0, random_sections(5));
}

TEST(Background, AFailureIsToldAtTheNextSaveWhichIsNotStarted) {
  TempDir dir;
  BackgroundCheckpointWriter writer(dir.path(), {});
  writer.save(1, {{"", {}}}, {});
  GBC_EXPECT_ERROR(writer.save(2, random_sections(2), {}), Errc::kUsage, "step 1 was not saved");
  writer.finish();
  EXPECT_EQ(listing(dir.path()), "lock\n");
  writer.save(3, random_sections(3), {});
  writer.finish();
  expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(3));
}

TEST(Background, AFailureThatNobodyAskedForIsAWarning) {
  TempDir dir;
  std::vector<std::string> said;
  {
    BackgroundCheckpointWriter writer(
        dir.path(), {}, {.warn = [&](const std::string& text) { said.push_back(text); }});
    writer.save(1, {{"", {}}}, {});
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("step 1 was not saved"), std::string::npos);
}

TEST(Background, TheEndWaitsForTheSave) {
  TempDir dir;
  BackgroundCheckpointWriter(dir.path(), {}).save(1, random_sections(1, 6, 1 << 20), {});
  expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(1, 6, 1 << 20));
}

/// The signal that goes with the limit would end the process; the writer's thread does not take it.
TEST(Background, ALimitOnFileSizesIsAMessage) {
  TempDir dir;
  BackgroundCheckpointWriter writer(dir.path(), {});
  writer.save(1, random_sections(1), {});
  writer.finish();
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  writer.save(2, {{"large", Bytes(2 << 20)}}, {});
  std::string message;
  try {
    writer.finish();
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(message.find("cannot be written: File too large; raise the limit"), std::string::npos)
      << message;
  EXPECT_EQ(listing(dir.path()), "lock\n" + step(1));
  expect_holds(CheckpointReader::open(dir.path()), 0, random_sections(1));
}

}  // namespace
}  // namespace gbcompress
