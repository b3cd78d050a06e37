#include <gtest/gtest.h>
#include <torch/types.h>

#include "gbcompress/registry.h"
#include "support/files.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

class SearchPath : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"GBCOMPRESS_PLUGIN_PATH", "XDG_DATA_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      saved_.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : saved_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  static bool has(const fs::path& folder) {
    const auto path = PluginHost::search_path();
    return std::find(path.begin(), path.end(), folder) != path.end();
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

TEST_F(SearchPath, BeginsBesideTheProgram) {
  const auto path = PluginHost::search_path();
  ASSERT_GE(path.size(), 3u);
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(path[0], program / "plugins");
  EXPECT_TRUE(path[1].string().ends_with("gbcompress/plugins")) << path[1];
  EXPECT_EQ(path[1].string().find(program.parent_path().string()), 0u) << path[1];
}

TEST_F(SearchPath, TakesTheEnvironmentInOrderAndOnce) {
  ::setenv("GBCOMPRESS_PLUGIN_PATH", "/a/b::/c/:relative:/a/../a/b", 1);
  ::setenv("XDG_DATA_HOME", "/data", 1);
  const auto path = PluginHost::search_path();
  ASSERT_GE(path.size(), 3u);
  EXPECT_EQ(path[path.size() - 3], "/a/b");
  EXPECT_EQ(path[path.size() - 2], "/c");
  EXPECT_EQ(path.back(), "/data/gbcompress/plugins");
}

TEST_F(SearchPath, FallsBackToTheHomeFolder) {
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(PluginHost::search_path().back(), "/home/someone/.local/share/gbcompress/plugins");
  ::setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(PluginHost::search_path().back(), "/home/someone/.local/share/gbcompress/plugins");
}

TEST_F(SearchPath, NeverHoldsTheWorkingDirectory) {
  const testing::TempDir folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  for (const char* value : {"", ".", ":", "plugins:./plugins", "::"}) {
    ::setenv("GBCOMPRESS_PLUGIN_PATH", value, 1);
    EXPECT_FALSE(has(folder.path())) << value;
    EXPECT_FALSE(has(folder / "plugins")) << value;
    for (const fs::path& entry : PluginHost::search_path()) EXPECT_TRUE(entry.is_absolute());
  }
  fs::current_path(before);
}

}  // namespace
}  // namespace gbcompress
