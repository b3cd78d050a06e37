#include "base/stale_temporaries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::get_file;
using testing::put_file;
using testing::TempDir;
using testing::to_bytes;

/// The number of a process that has ended.
pid_t nobody() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

class StaleTemporaries : public ::testing::Test {
 protected:
  /// A file beside the output, an hour old unless told otherwise.
  fs::path left(const std::string& name, time_t seconds = -3600) {
    put_file(dir_ / name, "half");
    const timespec times[2] = {{0, UTIME_OMIT}, {::time(nullptr) + seconds, 0}};
    ::utimensat(AT_FDCWD, (dir_ / name).c_str(), times, 0);
    return dir_ / name;
  }
  void save() {
    AtomicFile file(dir_ / "out.gbz", true);
    file.write(to_bytes("whole"));
    file.commit();
  }
  TempDir dir_;
  const std::string dead_ = std::to_string(nobody());
};

TEST_F(StaleTemporaries, OfDeadProcessesGo) {
  left("out.gbz.tmp-" + dead_ + "-0");
  left("out.gbz.tmp-" + dead_ + "-12");
  save();
  EXPECT_EQ(get_file(dir_ / "out.gbz"), "whole");
  EXPECT_EQ(dir_.files(), 1u);
}

TEST_F(StaleTemporaries, FromBeforeTheClockWasSetBackGo) {
  left("out.gbz.tmp-" + dead_ + "-0", 86'400);
  save();
  EXPECT_EQ(dir_.files(), 1u);
}

TEST_F(StaleTemporaries, OfAKilledWriterGo) {
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir_ / "out.gbz", true);
    file.write(to_bytes("half"));
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const fs::path temporary = dir_ / ("out.gbz.tmp-" + std::to_string(child) + "-0");
  ASSERT_TRUE(fs::exists(temporary));
  save();
  EXPECT_TRUE(fs::exists(temporary)) << "it might have been made by a process that locks it soon";
  left(temporary.filename().string());
  save();
  EXPECT_FALSE(fs::exists(temporary));
}

TEST_F(StaleTemporaries, WhatMayBeInUseStays) {
  const fs::path alive = left("out.gbz.tmp-" + std::to_string(::getppid()) + "-0");
  const fs::path locked = left("out.gbz.tmp-" + dead_ + "-0");
  const int fd = ::open(locked.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  lock_temporary(fd);  // as a process on another machine does, of whose number nobody is here
  put_file(dir_ / ("out.gbz.tmp-" + dead_ + "-1"), "young");
  save();
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(locked));
  EXPECT_TRUE(fs::exists(dir_ / ("out.gbz.tmp-" + dead_ + "-1")));
  ::close(fd);
  save();
  EXPECT_FALSE(fs::exists(locked)) << "its writer let go";
}

TEST_F(StaleTemporaries, OfAKilledRunGoWhateverTheirAge) {
  left("out.gbz.tmp-" + dead_ + "-0", 0);
  const fs::path alive = left("out.gbz.tmp-" + std::to_string(::getppid()) + "-0", 0);
  const fs::path locked = left("out.gbz.tmp-" + dead_ + "-1", 0);
  const int fd = ::open(locked.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  lock_temporary(fd);
  remove_temporaries_of_killed(dir_ / "out.gbz");
  EXPECT_FALSE(fs::exists(dir_ / ("out.gbz.tmp-" + dead_ + "-0")));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_TRUE(fs::exists(locked));
  ::close(fd);
}

TEST_F(StaleTemporaries, OtherNamesStay) {
  std::vector<fs::path> kept;
  for (const std::string& name : std::vector<std::string>{
           "out.gbz.tmp-", "out.gbz.tmp-" + dead_, "out.gbz.tmp-" + dead_ + "-",
           "out.gbz.tmp-0" + dead_ + "-0", "out.gbz.tmp-" + dead_ + "-00",
           "out.gbz.tmp--" + dead_ + "-0", "out.gbz.tmp-" + dead_ + "-0.bak",
           "out.gbz.tmp-+" + dead_ + "-0", "out.gbz.tmp-0-0", "xout.gbz.tmp-" + dead_ + "-0",
           "out.gb.tmp-" + dead_ + "-0", "out.gbz.tmp-99999999999999999999-0"})
    kept.push_back(left(name));
  fs::create_directory(dir_ / ("out.gbz.tmp-" + dead_ + "-3"));
  left("precious");
  fs::create_symlink("precious", dir_ / ("out.gbz.tmp-" + dead_ + "-4"));
  save();
  for (const fs::path& path : kept) EXPECT_TRUE(fs::exists(path)) << path;
  EXPECT_TRUE(fs::is_directory(dir_ / ("out.gbz.tmp-" + dead_ + "-3")));
  EXPECT_TRUE(fs::is_symlink(dir_ / ("out.gbz.tmp-" + dead_ + "-4")));
  EXPECT_EQ(get_file(dir_ / "precious"), "half");
}

}  // namespace
}  // namespace gbcompress
