#include "gbcompress/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gbcompress/error.h"
#include "support/files.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;
using testing::get_file;

Errc refusal(const std::string& name, const fs::path& folder) {
  try {
    write_plugin_template(name, folder);
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

TEST(PluginTemplate, IsFilledIn) {
  const testing::TempDir folder;
  write_plugin_template("row_wise2", folder / "new");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "new"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"CMakeLists.txt", "README.md", "digits.toml",
                                             "row_wise2.cpp"}));
  const fs::path source = fs::path(GBC_SOURCE_DIR) / "sdk" / "template";
  for (const std::string& name : names) {
    const std::string text = get_file(folder.path() / "new" / name);
    EXPECT_EQ(text.find('@'), std::string::npos) << name;  // however a placeholder is written
    EXPECT_NE(text.find("row_wise2"), std::string::npos) << name;
    // Nothing but the two placeholders differs from the template.
    std::string wanted = get_file(source / (name == "row_wise2.cpp" ? "plugin.cpp.in" : name));
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"@NAME@", "row_wise2"}, {"@CAMEL@", "RowWise2"}})
      for (std::size_t at; (at = wanted.find(from)) != std::string::npos;)
        wanted.replace(at, from.size(), to);
    EXPECT_EQ(text, wanted) << name;
  }
}

TEST(PluginTemplate, RefusesWhatItMustNotDo) {
  const testing::TempDir folder;
  for (const char* name :
       {"", "Row", "2row", "_row", "row-wise", "row wise", "../row", "r\xc3\xa4"})
    EXPECT_EQ(refusal(name, folder / "new"), Errc::kUsage) << name;
  EXPECT_EQ(refusal(std::string(65, 'a'), folder / "new"), Errc::kUsage);
  EXPECT_FALSE(fs::exists(folder / "new"));
  fs::create_directory(folder / "there");
  EXPECT_EQ(refusal("row", folder / "there"), Errc::kExists);
  EXPECT_TRUE(fs::is_empty(folder / "there"));
  fs::create_symlink("nowhere", folder / "link");
  EXPECT_EQ(refusal("row", folder / "link"), Errc::kExists);
  EXPECT_EQ(refusal("row", folder.path() / "no" / "parent"), Errc::kIo);
}

}  // namespace
}  // namespace gbcompress
