/// Damaged plugin files, each given to a host that is a process of its own.
#include <elf.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/digest.h"
#include "plugin/digest_file.h"
#include "plugin/door.h"
#include "support/files.h"

namespace gbcompress {
namespace {
using test::builtin;

enum class Outcome { kRefused, kLoaded, kDied };

/// What a host does with a file in which there are these bytes, in a child.
/// @param manifest_of  bytes that its manifest names; "" for none
Outcome outcome(const testing::TempDir& folder, const std::string& bytes,
                const std::string& manifest_of = "") {
  const auto file = folder / "damaged.so";
  testing::put_file(file, bytes);
  if (!manifest_of.empty())
    testing::put_file(digest_path(file),
                      to_hex(sha256(std::as_bytes(std::span(manifest_of)))) + "  damaged.so\n");
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      PluginHost host;
      host.load(file);
    } catch (const std::exception&) {
      status = 1;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove(file);  // a new file for the next child: the loader knows files by inode
  std::filesystem::remove(digest_path(file));
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

/// A few bits, a few bytes, a run of zeros, two pieces swapped, or the end cut off.
std::string mutated(std::string bytes, std::mt19937& random) {
  const auto place = [&](std::size_t room) { return random() % (bytes.size() - room); };
  const std::size_t length = 1 + random() % 64, at = place(length), other = place(length);
  switch (random() % 5) {
    case 0:
      for (std::size_t n = 1 + random() % 8; n > 0; --n)
        bytes[place(1)] ^= static_cast<char>(1 << random() % 8);
      break;
    case 1:
      for (std::size_t n = 1 + random() % 8; n > 0; --n)
        bytes[place(1)] = static_cast<char>(random());
      break;
    case 2:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
      break;
    case 3:
      for (std::size_t i = 0; i < length; ++i) std::swap(bytes[at + i], bytes[other + i]);
      break;
    default:
      bytes.resize(bytes.size() - length);
  }
  return bytes;
}

/// 150 of each kind here; GBC_PLUGIN_MUTATIONS=5000 for the figure of reliability.md.
int rounds() {
  const char* given = std::getenv("GBC_PLUGIN_MUTATIONS");
  return given ? std::atoi(given) : 150;
}

/// Damage inside code and relocations looks like code and relocations: the manifest tells.
TEST(DamagedPlugin, IsRefusedByItsManifest) {
  const testing::TempDir folder;
  const std::string whole = testing::get_file(builtin("linear"));
  ASSERT_EQ(outcome(folder, whole, whole), Outcome::kLoaded);
  std::mt19937 random(17);
  for (int changed = 0; changed < rounds();) {
    const std::string bytes = mutated(whole, random);
    if (bytes == whole) continue;  // zeros in place of zeros
    ++changed;
    ASSERT_EQ(outcome(folder, bytes, whole), Outcome::kRefused) << "mutation " << changed;
  }
}

/// Without one, a child of the host is what dies.
TEST(DamagedPlugin, WithoutAManifestKillsNoHost) {
  const testing::TempDir folder;
  const std::string whole = testing::get_file(builtin("linear"));
  std::mt19937 random(19);
  std::array<int, 3> counts{};
  for (int i = 0; i < rounds(); ++i)
    ++counts[static_cast<std::size_t>(outcome(folder, mutated(whole, random)))];
  std::printf("without a manifest: %d refused, %d loaded, %d hosts died\n", counts[0], counts[1],
              counts[2]);
  EXPECT_EQ(counts[2], 0);
  EXPECT_GT(counts[0], 0);
}

}  // namespace
}  // namespace gbcompress
