/// Damaged plugin files, each loaded in a process of its own.
#include <elf.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <random>

#include "plugin/door.h"
#include "support/files.h"

namespace gbcompress {
namespace {
using test::builtin;

enum class Outcome { kRefused, kLoaded, kDied };

/// Loads the bytes as a plugin and asks it for a plan, in a child.
Outcome outcome(const testing::TempDir& folder, const std::string& bytes) {
  const auto file = folder / "damaged.so";
  testing::put_file(file, bytes);
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      PluginHost host;
      host.load(file);
      ParameterInfo info;
      info.local_name = "weight";
      info.shape = {16, 16};
      host.registry().find_by_module("Linear")->plan(info, {});
    } catch (const std::exception&) {
      status = 1;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove(file);  // a new file for the next child: the loader knows files by inode
  if (!WIFEXITED(status)) return Outcome::kDied;
  return WEXITSTATUS(status) == 1 ? Outcome::kRefused : Outcome::kLoaded;
}

TEST(DamagedPlugin, NoTruncationKillsTheHost) {
  const testing::TempDir folder;
  const std::string whole = testing::get_file(builtin("linear"));
  ASSERT_EQ(outcome(folder, whole), Outcome::kLoaded);
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const std::size_t size =
        i < 20 ? whole.size() - 1 - static_cast<std::size_t>(i) : random() % whole.size();
    ASSERT_EQ(outcome(folder, whole.substr(0, size)), Outcome::kRefused) << size << " bytes";
  }
}

/// @param first, last  where bits may flip
std::array<int, 3> flip_outcomes(std::size_t first, std::size_t last, int rounds) {
  const testing::TempDir folder;
  const std::string whole = testing::get_file(builtin("linear"));
  std::mt19937 random(13);
  std::array<int, 3> counts{};
  for (int i = 0; i < rounds; ++i) {
    std::string bytes = whole;
    const std::size_t at = first + random() % (std::min(last, whole.size()) - first);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    ++counts[static_cast<std::size_t>(outcome(folder, bytes))];
  }
  std::printf("%d bits flipped, one at a time: %d refused, %d loaded, %d died\n", rounds, counts[0],
              counts[1], counts[2]);
  return counts;
}

TEST(DamagedPlugin, NoFlipInTheFileHeaderKillsTheHost) {
  const auto counts = flip_outcomes(0, sizeof(Elf64_Ehdr), 300);
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[0], 150);
}

TEST(DamagedPlugin, FlipsInTheProgramHeaders) {
  Elf64_Ehdr header;
  std::memcpy(&header, testing::get_file(builtin("linear")).data(), sizeof header);
  const auto counts =
      flip_outcomes(header.e_phoff, header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr), 600);
  EXPECT_EQ(counts[2], 0);
}

/// Damage inside code and relocations looks like code and relocations; only a digest kept elsewhere
/// can tell. This counts what the headers give away.
TEST(DamagedPlugin, MostFlipsAnywhereAreSurvived) {
  const auto counts = flip_outcomes(0, std::string::npos, 300);
  EXPECT_LT(counts[2], 60);
}

}  // namespace
}  // namespace gbcompress
