#include "base/mapped_inputs.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "base/file.h"
#include "gbcompress/error.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::get_file;
using testing::put_file;
using testing::TempDir;

constexpr std::size_t kBytes = 1 << 20;

std::size_t zeros(const MappedFile& file) {
  return static_cast<std::size_t>(
      std::count(file.bytes().begin(), file.bytes().end(), std::byte{0}));
}

/// A file of ones, mapped, and then cut.
struct Cut {
  explicit Cut(std::uintmax_t left) {
    put_file(dir / "in", std::string(kBytes, '\1'));
    file = std::make_unique<MappedFile>(dir / "in");
    fs::resize_file(dir / "in", left);
  }
  TempDir dir;
  std::unique_ptr<MappedFile> file;
};

TEST(MappedInputs, WhatIsGoneReadsAsZerosAndIsTold) {
  Cut cut(8192);
  EXPECT_EQ(zeros(*cut.file), kBytes - 8192);
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "in became shorter");
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "in became shorter");
  cut.file.reset();
  EXPECT_NO_THROW(check_mapped_inputs());
}

/// Bytes of files in this process's memory.
std::size_t resident_of_files() {
  std::ifstream in("/proc/self/statm");
  std::size_t size = 0, resident = 0, shared = 0;
  in >> size >> resident >> shared;
  return shared * 4096;
}

TEST(MappedInputs, ReleasedPagesLeaveMemoryAndAreReadAgain) {
  constexpr std::size_t kLarge = std::size_t{32} << 20;
  const TempDir dir;
  put_file(dir / "in", std::string(kLarge, '\1'));
  const MappedFile file(dir / "in");
  EXPECT_EQ(zeros(file), 0u);
  const std::size_t before = resident_of_files();
  release_pages(file.bytes().subspan(100, kLarge - 200));
  EXPECT_LT(resident_of_files(), before - kLarge / 2);
  EXPECT_EQ(zeros(file), 0u);
  // Of no file: these would be zeros afterwards.
  std::vector<std::byte> own(kLarge, std::byte{1});
  release_pages(own);
  EXPECT_EQ(std::count(own.begin(), own.end(), std::byte{0}), 0);
  release_pages({});
}

TEST(MappedInputs, ManyThreadsReadWhatIsGone) {
  const Cut cut(0);
  std::vector<std::size_t> found(8);
  {
    std::vector<std::jthread> team;
    for (std::size_t& each : found) team.emplace_back([&] { each = zeros(*cut.file); });
  }
  for (const std::size_t each : found) EXPECT_EQ(each, kBytes);
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "became shorter");
}

TEST(MappedInputs, ACutWithinAPageIsToldToo) {
  const Cut cut(kBytes - 1);
  EXPECT_EQ(zeros(*cut.file), 1u);  // no signal: the kernel fills the page with zeros
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "became shorter");
}

TEST(MappedInputs, IsToldOnceWhenTheFileIsNoLongerMapped) {
  Cut cut(0);
  EXPECT_EQ(zeros(*cut.file), kBytes);
  cut.file.reset();
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "became shorter");
  EXPECT_NO_THROW(check_mapped_inputs());
}

TEST(MappedInputs, WhatComesLaterIsNotToldOfALossBefore) {
  const auto fails = [] {
    const Cut cut(0);
    throw Error(Errc::kCorrupt, "another reason");
  };
  EXPECT_THROW(fails(), Error);
  EXPECT_NO_THROW(check_mapped_inputs());
  { const Cut cut(0); }
  TempDir dir;
  put_file(dir / "whole", "1");
  const MappedFile whole(dir / "whole");
  EXPECT_NO_THROW(check_mapped_inputs());
}

TEST(MappedInputs, AnotherFileUnderTheNameIsNoLoss) {
  TempDir dir;
  put_file(dir / "in", std::string(kBytes, '\1'));
  const MappedFile file(dir / "in");
  put_file(dir / "new", "short");
  fs::rename(dir / "new", dir / "in");
  EXPECT_EQ(zeros(file), 0u);
  EXPECT_NO_THROW(check_mapped_inputs());
}

TEST(MappedInputs, NumbersThatWereCopiedAreCheckedByTheirOwnFile) {
  const Cut cut(8192);
  TempDir dir;
  put_file(dir / "whole", std::string(kBytes, '\1'));
  const MappedFile whole(dir / "whole");
  EXPECT_NO_THROW(check_mapped(whole.bytes().subspan(4096, 16)));
  EXPECT_NO_THROW(check_mapped(testing::to_bytes("of no file")));
  EXPECT_NO_THROW(check_mapped({}));
  // Before anything was read: the size tells.
  GBC_EXPECT_ERROR(check_mapped(cut.file->bytes().first(16)), Errc::kFailure, "became shorter");
  GBC_EXPECT_ERROR(check_mapped(cut.file->bytes().last(1)), Errc::kFailure, "became shorter");
  GBC_EXPECT_ERROR(check_mapped_inputs(), Errc::kFailure, "became shorter");
}

int calls = 0;
struct sigaction ours {};

/// As Python's faulthandler does: gives the signal back to who had it before, and raises it again.
void take_once(int signal) {
  ++calls;
  ::sigaction(signal, &ours, nullptr);
}

TEST(MappedInputs, TheSignalIsTakenBackFromWhoeverTookItOver) {
  const Cut first(0);
  struct sigaction theirs {};
  theirs.sa_handler = take_once;
  ASSERT_EQ(::sigaction(SIGBUS, &theirs, &ours), 0);
  const Cut second(0);
  EXPECT_EQ(zeros(*second.file), kBytes);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(zeros(*first.file), kBytes);
  ::sigaction(SIGBUS, &ours, nullptr);
  EXPECT_THROW(check_mapped_inputs(), Error);
}

TEST(MappedInputs, NothingIsWrittenFromALostInput) {
  Cut cut(0);
  put_file(cut.dir / "out", "old");
  {
    AtomicFile out(cut.dir / "out", true);
    out.write(testing::to_bytes("made of zeros"));
    GBC_EXPECT_ERROR(out.commit(), Errc::kFailure, "no file was written");
  }
  EXPECT_EQ(get_file(cut.dir / "out"), "old");
  EXPECT_EQ(cut.dir.files(), 2u);
}

TEST(MappedInputsDeathTest, OthersBusErrorsStillEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_beyond_ours = [] {
    const Cut cut(0);
    TempDir dir;
    put_file(dir / "theirs", "x");
    const int fd = ::open((dir / "theirs").c_str(), O_RDONLY);
    const auto* bytes =
        static_cast<const volatile char*>(::mmap(nullptr, 1 << 16, PROT_READ, MAP_SHARED, fd, 0));
    static_cast<void>(bytes[1 << 15]);
  };
  const auto read_beyond = [&] {
    // Sanitizers have a handler of their own, which reports and exits.
    std::signal(SIGBUS, SIG_DFL);
    read_beyond_ours();
  };
  EXPECT_EXIT(read_beyond(), ::testing::KilledBySignal(SIGBUS), "");
  // Also where another handler was installed after ours, and gives the signal back.
  const auto twice = [&] {
    std::signal(SIGBUS, SIG_DFL);
    const Cut first(0);
    struct sigaction theirs {};
    theirs.sa_handler = take_once;
    ::sigaction(SIGBUS, &theirs, &ours);
    read_beyond_ours();
  };
  EXPECT_EXIT(twice(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace gbcompress
