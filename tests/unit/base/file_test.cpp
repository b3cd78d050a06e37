#include "base/file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "support/files.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::get_file;
using testing::put_file;
using testing::TempDir;
using testing::to_bytes;

/// Files stop growing at `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

void save(const fs::path& path, const std::string& text, bool overwrite) {
  AtomicFile file(path, overwrite);
  file.write(to_bytes(text));
  file.commit();
}

TEST(CheckNotAnInput, ComparesDeviceAndInode) {
  TempDir dir;
  put_file(dir / "in", "x");
  put_file(dir / "same", "x");
  fs::create_symlink(dir / "in", dir / "symbolic");
  fs::create_hard_link(dir / "in", dir / "hard");
  fs::create_directory_symlink(dir.path(), dir / "folder");
  const std::vector<fs::path> inputs = {dir / "none", dir / "in", dir.path()};
  GBC_EXPECT_ERROR(check_not_an_input(dir / "in", inputs), Errc::kUsage,
                   "is both an input and the output; name another output");
  for (const fs::path& name :
       {dir / "symbolic", dir / "hard", dir / "folder" / "in", dir / "folder"})
    GBC_EXPECT_ERROR(check_not_an_input(name, inputs), Errc::kUsage,
                     "is the same file as the input");
  EXPECT_NO_THROW(check_not_an_input(dir / "same", inputs));
  EXPECT_NO_THROW(check_not_an_input(dir / "none", inputs));
  EXPECT_NO_THROW(check_not_an_input(dir / "in", {}));
}

TEST(AtomicFile, AppearsWholeOnCommitOnly) {
  TempDir dir;
  {
    AtomicFile file(dir / "out", false);
    file.write(to_bytes("one "));
    file.write(to_bytes("two"));
    EXPECT_FALSE(fs::exists(dir / "out"));
    file.commit();
  }
  EXPECT_EQ(get_file(dir / "out"), "one two");
  EXPECT_EQ(dir.files(), 1u);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  TempDir dir;
  put_file(dir / "out", "old");
  {
    AtomicFile file(dir / "out", true);
    file.write(to_bytes("new"));
  }
  EXPECT_EQ(get_file(dir / "out"), "old");
  EXPECT_EQ(dir.files(), 1u);
}

TEST(AtomicFile, ReplacesOnlyWhenAsked) {
  TempDir dir;
  put_file(dir / "out", "old");
  GBC_EXPECT_ERROR(save(dir / "out", "new", false), Errc::kExists, "`overwrite`");
  EXPECT_EQ(get_file(dir / "out"), "old");
  save(dir / "out", "new", true);
  EXPECT_EQ(get_file(dir / "out"), "new");
  EXPECT_EQ(dir.files(), 1u);
}

TEST(AtomicFile, ReplacesNoFileThatAppearsMeanwhile) {
  TempDir dir;
  AtomicFile file(dir / "out", false);
  file.write(to_bytes("mine"));
  put_file(dir / "out", "theirs");
  GBC_EXPECT_ERROR(file.commit(), Errc::kExists, "exists");
  EXPECT_EQ(get_file(dir / "out"), "theirs");
}

TEST(AtomicFile, RefusesFolders) {
  TempDir dir;
  fs::create_directory(dir / "folder");
  GBC_EXPECT_ERROR(AtomicFile(dir / "folder", true), Errc::kIo, "is a folder");
  GBC_EXPECT_ERROR(AtomicFile(dir.path() / "", true), Errc::kIo, "is a folder");
  GBC_EXPECT_ERROR(AtomicFile(dir / "missing/out", false), Errc::kIo, "folder does not exist");
  fs::create_symlink(dir / "folder", dir / "link");
  GBC_EXPECT_ERROR(AtomicFile(dir / "link", true), Errc::kIo, "is a folder");
  EXPECT_EQ(dir.files(), 2u);
}

TEST(AtomicFile, WritesDevicesAndLeavesThem) {
  AtomicFile file("/dev/null", true);
  file.write(to_bytes("gone"));
  file.commit();
  EXPECT_EQ(fs::status("/dev/null").type(), fs::file_type::character);
}

TEST(AtomicFile, WritesThroughASymbolicLink) {
  TempDir dir;
  put_file(dir / "real", "old");
  fs::create_symlink(dir / "real", dir / "link");
  save(dir / "link", "new", true);
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(get_file(dir / "real"), "new");
}

TEST(AtomicFile, AFullDiskKeepsTheOldFileAndLeavesNoOther) {
  TempDir dir;
  put_file(dir / "out", "old");
  {
    FullDisk disk(1000);
    GBC_EXPECT_ERROR(save(dir / "out", std::string(5000, 'x'), true), Errc::kIo,
                     "cannot be written");
  }
  EXPECT_EQ(get_file(dir / "out"), "old");
  EXPECT_EQ(dir.files(), 1u);
}

TEST(AtomicFile, CheckWritableSaysSoBeforehandAndLeavesNothing) {
  TempDir dir;
  check_writable(dir / "out", false);
  EXPECT_EQ(dir.files(), 0u);
  put_file(dir / "out", "old");
  GBC_EXPECT_ERROR(check_writable(dir / "out", false), Errc::kExists, "exists");
  check_writable(dir / "out", true);
  EXPECT_EQ(get_file(dir / "out"), "old");
  EXPECT_EQ(dir.files(), 1u);
}

TEST(MappedFile, ShowsTheContent) {
  TempDir dir;
  put_file(dir / "in", "content");
  MappedFile file(dir / "in");
  EXPECT_EQ(testing::to_text(file.bytes()), "content");
  MappedFile moved(std::move(file));
  EXPECT_EQ(testing::to_text(moved.bytes()), "content");
  put_file(dir / "empty", "");
  EXPECT_TRUE(MappedFile(dir / "empty").bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  TempDir dir;
  GBC_EXPECT_ERROR(MappedFile(dir / "none"), Errc::kNotFound, "does not exist");
  GBC_EXPECT_ERROR(MappedFile(dir.path()), Errc::kIo, "is a folder");
  GBC_EXPECT_ERROR(MappedFile("/dev/null"), Errc::kIo, "not an ordinary file");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  GBC_EXPECT_ERROR(MappedFile(dir / "pipe"), Errc::kIo, "not an ordinary file");
  put_file(dir / "file", "x");
  GBC_EXPECT_ERROR(MappedFile(dir / "file/inside"), Errc::kNotFound, "does not exist");
}

TEST(ReadFile, IsBounded) {
  TempDir dir;
  put_file(dir / "in", "12345");
  EXPECT_EQ(read_text(dir / "in", 5), "12345");
  EXPECT_EQ(read_file(dir / "in", 5).size(), 5u);
  GBC_EXPECT_ERROR(read_text(dir / "in", 4), Errc::kLimit, "at most 4");
}

}  // namespace
}  // namespace gbcompress
