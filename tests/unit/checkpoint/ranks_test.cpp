#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "unit/checkpoint/team.h"

namespace gbcompress {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests
namespace fs = std::filesystem;

std::uint32_t seed_of(int step, int rank) { return static_cast<std::uint32_t>(1000 * step + rank); }

void expect_all_done(const std::vector<std::exception_ptr>& failures) {
  for (const auto& failure : failures) EXPECT_FALSE(failure);
}

TEST(Ranks, EveryRankReadsEveryShardAtAnyWorldSize) {
  for (int world : {1, 2, 3, 5}) {
    TempDir dir;
    expect_all_done(as_ranks(world, [&](const CheckpointRanks& ranks) {
      CheckpointWriter writer(dir.path(), ranks);
      for (int step : {1, 2})
        writer.save(step, random_sections(seed_of(step, ranks.rank)),
                    {{"saved by", std::to_string(ranks.rank)}});
    }));
    for (int later : {1, 2, 4})
      expect_all_done(as_ranks(later, [&](const CheckpointRanks& ranks) {
        const auto reader = CheckpointReader::open(dir.path(), ranks);
        EXPECT_EQ(reader.step(), 2);
        EXPECT_EQ(reader.world(), world);
        EXPECT_EQ(reader.facts().at("saved by"), "0");
        for (int shard = 0; shard < world; ++shard)
          expect_holds(reader, shard, random_sections(seed_of(2, shard)));
      }));
  }
}

TEST(Ranks, ResumeAtAnotherWorldSize) {
  TempDir dir;
  fs::path resumed;
  int step = 0;
  for (int world : {4, 1, 3, 2}) {
    expect_all_done(as_ranks(world, [&, from = resumed](const CheckpointRanks& ranks) {
      CheckpointWriter writer(dir.path(), ranks, {.resumed_from = from});
      for (int i = 1; i <= 3; ++i)
        writer.save(step + i, random_sections(seed_of(step + i, ranks.rank)), {});
    }));
    step += 3;
    const auto reader = CheckpointReader::open(dir.path());
    EXPECT_EQ(reader.step(), step);
    EXPECT_EQ(reader.world(), world);
    resumed = reader.folder();
  }
  EXPECT_EQ(listing(dir.path()), "lock\nstep-000000000011\nstep-000000000012\n");
}

/// Saves step 1, then step 2 with something in the way of one rank, between the phases of the save.
/// @param phase  agreements of the second save that go before the obstacle is laid
struct Obstacle {
  int rank = 0, phase = 0;
  std::function<void(const fs::path& temporary)> lay;
};

std::vector<std::exception_ptr> save_with(const fs::path& folder, int world,
                                          const Obstacle& obstacle) {
  return as_ranks(world, [&](const CheckpointRanks& given) {
    CheckpointRanks ranks = given;
    int agreements = -1;  // counted from the second save on
    ranks.agree = [&](bool ok) {
      if (agreements >= 0 && agreements++ == obstacle.phase && ranks.rank == obstacle.rank)
        obstacle.lay(folder / "step-000000000002.tmp-test-2");
      return given.agree(ok);
    };
    CheckpointWriter writer(folder, ranks);
    writer.save(1, random_sections(seed_of(1, ranks.rank)), {});
    agreements = 0;
    writer.save(2, random_sections(seed_of(2, ranks.rank)), {});
  });
}

void expect_only_the_first(const fs::path& folder, int world) {
  EXPECT_EQ(listing(folder), "lock\nstep-000000000001\n");
  const auto reader = CheckpointReader::open(folder);
  EXPECT_EQ(reader.step(), 1);
  for (int shard = 0; shard < world; ++shard)
    expect_holds(reader, shard, random_sections(seed_of(1, shard)));
}

TEST(Ranks, AllFailWhenOneCannotWriteItsShard) {
  for (int world : {2, 3})
    for (int bad = 0; bad < world; ++bad) {
      TempDir dir;
      const std::string name = "rank-0000" + std::to_string(bad) + ".shard";
      // Rank 0 lays it: it has just made the folder.
      const auto failures =
          save_with(dir.path(), world,
                    {0, 0, [&](const fs::path& temporary) { put_file(temporary / name, "mine"); }});
      for (int rank = 0; rank < world; ++rank) {
        const auto& failure = failures[static_cast<std::size_t>(rank)];
        const std::string message = message_of(failure, rank == bad ? Errc::kIo : Errc::kFailure);
        EXPECT_NE(message.find("checkpoint of step 2 was not saved: "), std::string::npos);
        EXPECT_NE(message.find("those saved before are untouched"), std::string::npos);
        EXPECT_NE(message.find(rank == bad ? name + " cannot be made: File exists"
                                           : "another rank failed; see its message"),
                  std::string::npos)
            << message;
      }
      expect_only_the_first(dir.path(), world);
    }
}

TEST(Ranks, AllFailWhenAShardIsGoneOrHalf) {
  for (const bool half : {false, true}) {
    TempDir dir;
    const auto failures =
        save_with(dir.path(), 2, {1, 1, [&](const fs::path& temporary) {
                                    const fs::path shard = temporary / "rank-00001.shard";
                                    if (half)
                                      fs::resize_file(shard, fs::file_size(shard) - 1);
                                    else
                                      fs::remove(shard);
                                  }});
    message_of(failures[0], half ? Errc::kTruncated : Errc::kNotFound);
    message_of(failures[1], Errc::kFailure);
    expect_only_the_first(dir.path(), 2);
  }
}

TEST(Ranks, AllFailWhenTheManifestCannotBeWritten) {
  TempDir dir;
  const auto failures =
      save_with(dir.path(), 2,
                {0, 1, [&](const fs::path& temporary) { put_file(temporary / "manifest", ""); }});
  message_of(failures[0], Errc::kIo);
  message_of(failures[1], Errc::kFailure);
  expect_only_the_first(dir.path(), 2);
}

TEST(Ranks, AllFailWhenTheFolderCannotBeMade) {
  TempDir dir;
  const auto failures = as_ranks(2, [&](const CheckpointRanks& ranks) {
    CheckpointWriter writer(dir.path(), ranks);
    writer.save(1, random_sections(seed_of(1, ranks.rank)), {});
    if (ranks.rank == 0) put_file(dir / "step-000000000002.tmp-test-2", "in the way");
    writer.save(2, random_sections(seed_of(2, ranks.rank)), {});
  });
  EXPECT_NE(message_of(failures[0], Errc::kIo).find("cannot be made: File exists"),
            std::string::npos);
  message_of(failures[1], Errc::kFailure);
  expect_only_the_first(dir.path(), 2);
}

TEST(Ranks, ALostGroupReachesTheCallerAndLeavesNothingHalf) {
  for (int phase : {0, 1, 2}) {
    TempDir dir;
    const auto failures = as_ranks(2, [&](const CheckpointRanks& given) {
      CheckpointRanks ranks = given;
      int agreements = -1;
      ranks.agree = [&](bool ok) {
        const bool all = given.agree(ok);
        if (agreements >= 0 && agreements++ == phase) throw std::runtime_error("rank 7 is gone");
        return all;
      };
      CheckpointWriter writer(dir.path(), ranks);
      writer.save(1, random_sections(seed_of(1, ranks.rank)), {});
      agreements = 0;
      writer.save(2, random_sections(seed_of(2, ranks.rank)), {});
    });
    for (const auto& failure : failures) {
      ASSERT_TRUE(failure);
      EXPECT_THROW(std::rethrow_exception(failure), std::runtime_error);
    }
    if (phase < 2) {
      expect_only_the_first(dir.path(), 2);
    } else {  // lost after the rename
      EXPECT_EQ(listing(dir.path()), "lock\nstep-000000000001\nstep-000000000002\n");
      EXPECT_EQ(CheckpointReader::open(dir.path()).step(), 2);
    }
  }
}

TEST(Ranks, AnotherFolderIsNoticedAtTheStart) {
  TempDir dir;
  fs::create_directory(dir / "a");
  fs::create_directory(dir / "b");
  put_file(dir / "b/lock", "tesT");
  for (const char* other : {"none", "b"}) {
    const auto failures = as_ranks(2, [&](const CheckpointRanks& ranks) {
      CheckpointWriter(ranks.rank == 0 ? dir / "a" : dir / other, ranks);
    });
    EXPECT_NE(message_of(failures[0], Errc::kFailure).find("another rank failed"),
              std::string::npos);
    EXPECT_NE(message_of(failures[1], Errc::kFailure).find("rank 1 sees another folder"),
              std::string::npos);
  }
}

TEST(Ranks, WhatOnlyRankZeroSeesEndsAll) {
  TempDir dir;
  put_file(dir / "file", "");
  const auto failures = as_ranks(
      2, [&](const CheckpointRanks& ranks) { CheckpointWriter(dir / "file/below", ranks); });
  message_of(failures[0], Errc::kIo);
  message_of(failures[1], Errc::kFailure);
}

TEST(Ranks, WrongOnesAreRefused) {
  TempDir dir;
  const auto agree = [](bool ok) { return ok; };
  for (const CheckpointRanks& ranks :
       std::vector<CheckpointRanks>{{.rank = 1, .world = 1},
                                    {.rank = -1, .world = 1},
                                    {.rank = 0, .world = 0},
                                    {.rank = 0, .world = 2, .run = "a"},
                                    {.rank = 0, .world = 2, .agree = agree},
                                    {.rank = 0, .world = 1, .run = "a/b"},
                                    {.rank = 0, .world = 1, .run = std::string(65, 'a')},
                                    {.rank = 0, .world = 70'000, .run = "a", .agree = agree}})
    GBC_EXPECT_ERROR(CheckpointWriter(dir.path(), ranks), Errc::kUsage, "");
  GBC_EXPECT_ERROR(CheckpointReader::open(dir.path(), {.rank = 0, .world = 2}), Errc::kUsage,
                   "agreement");
  EXPECT_EQ(dir.files(), 0u);
}

/// A rank that outlives its rank 0 still holds its shard; nobody takes the folder from it.
TEST(Ranks, TemporariesOfALivingRankStay) {
  TempDir dir;
  const fs::path rest = dir / "step-000000000007.tmp-old-3";
  fs::create_directory(rest);
  put_file(rest / "rank-00000.shard", "dead");
  put_file(rest / "rank-00001.shard", "alive");
  const int fd = ::open((rest / "rank-00001.shard").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  {
    CheckpointWriter writer(dir.path(), {});
    EXPECT_EQ(listing(rest), "rank-00000.shard\nrank-00001.shard\n");
    writer.save(1, {}, {});
    EXPECT_TRUE(fs::exists(rest));
    ::close(fd);
    writer.save(2, {}, {});
    EXPECT_FALSE(fs::exists(rest));
  }
}

}  // namespace
}  // namespace gbcompress
