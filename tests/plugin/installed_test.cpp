/// load_installed(): what is found, in which order, and what is skipped.
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>

#include "plugin/door.h"
#include "support/files.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;
using test::bad;
using test::builtin;

const std::vector<std::string> kShipped = {"attention", "conv", "embedding", "linear", "recurrent"};

class Installed : public ::testing::Test {
 protected:
  void SetUp() override {
    // Nothing of the machine's own plugin folders.
    ::setenv("XDG_DATA_HOME", (folder / "data").c_str(), 1);
    ::setenv("GBCOMPRESS_PLUGIN_PATH", (folder / "path").c_str(), 1);
    fs::create_directories(folder / "path");
  }
  void TearDown() override {
    ::unsetenv("XDG_DATA_HOME");
    ::unsetenv("GBCOMPRESS_PLUGIN_PATH");
  }
  std::string reason_for(const fs::path& file) {
    for (const auto& [refused, why] : host.refused())
      if (refused == file) return why;
    return "";
  }
  testing::TempDir folder;
  PluginHost host;
};

TEST_F(Installed, FindsTheBuiltInPluginsBesideTheProgram) {
  host.load_installed();
  EXPECT_EQ(host.registry().ids(), kShipped);
  EXPECT_TRUE(host.refused().empty());
}

TEST_F(Installed, SkipsCopiesAndGoesOnBehindBadFiles) {
  fs::copy(builtin("linear"), folder.path() / "path" / "linear.so");
  testing::put_file(folder.path() / "path" / "a_text.so", "no library");
  testing::put_file(folder.path() / "path" / "notes.txt", "no library either");
  fs::copy(bad("bad_called_linear"), folder.path() / "path" / "other_linear.so");
  fs::copy(bad("misbehave"), folder.path() / "path" / "z_row.so");
  host.load_installed();
  std::vector<std::string> expected = kShipped;
  expected.push_back("row");
  EXPECT_EQ(host.registry().ids(), expected);
  EXPECT_EQ(host.refused().size(), 2u);
  EXPECT_NE(reason_for(folder.path() / "path" / "a_text.so").find("not a library"),
            std::string::npos);
  EXPECT_NE(reason_for(folder.path() / "path" / "other_linear.so").find("is called linear"),
            std::string::npos);
  const std::size_t loaded = host.loaded().size();
  EXPECT_GE(loaded, kShipped.size() + 1) << "those with strategies alone are not among the ids";
  host.load_installed();
  EXPECT_EQ(host.loaded().size(), loaded) << "a second call loads nothing anew";
}

TEST_F(Installed, FilesAskedForWinOverInstalledOnes) {
  fs::copy(builtin("linear"), folder / "mine.so");
  // The same plugin, and yet other bytes.
  testing::put_file(folder / "mine.so", testing::get_file(builtin("linear")) + "x");
  host.load(folder / "mine.so");
  host.load_installed();
  EXPECT_EQ(host.loaded().front().file, fs::canonical(folder / "mine.so"));
  EXPECT_NE(reason_for(builtin("linear")).find("mine.so"), std::string::npos);
  EXPECT_EQ(host.registry().ids(), kShipped);
}

TEST_F(Installed, LooksIntoTheDataFolder) {
  const fs::path data = folder.path() / "data" / "gbcompress" / "plugins";
  fs::create_directories(data);
  fs::copy(bad("misbehave"), data / "row.so");
  host.load_installed();
  EXPECT_NE(host.registry().find_by_id("row"), nullptr);
}

TEST_F(Installed, NothingOfTheWorkingDirectory) {
  fs::create_directory(folder / "plugins");
  fs::copy(bad("misbehave"), folder / "row.so");
  fs::copy(bad("misbehave"), folder.path() / "plugins" / "row.so");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  ::setenv("GBCOMPRESS_PLUGIN_PATH", ".:plugins:", 1);
  host.load_installed();
  fs::current_path(before);
  EXPECT_EQ(host.registry().find_by_id("row"), nullptr);
}

TEST_F(Installed, NothingOfAFolderThatEverybodyMayWriteTo) {
  fs::copy(bad("misbehave"), folder.path() / "path" / "row.so");
  fs::permissions(folder / "path", fs::perms::all | fs::perms::sticky_bit);
  host.load_installed();
  EXPECT_EQ(host.registry().find_by_id("row"), nullptr);
  EXPECT_NE(reason_for(folder.path() / "path" / "row.so").find("everybody may write"),
            std::string::npos);
}

}  // namespace
}  // namespace gbcompress
