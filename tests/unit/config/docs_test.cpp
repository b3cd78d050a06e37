#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "gbcompress/options.h"

namespace gbcompress {
namespace {

/// The table of config.md under this heading, as the program's own table would write it.
std::vector<std::string> rows_under(const std::string& heading) {
  std::ifstream file(GBC_SOURCE_DIR "/docs/reference/config.md");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (inside && line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

std::string row(const SettingInfo& info) {
  const std::string value = info.default_value.empty() ? "" : "`" + info.default_value + "`";
  return "| `" + info.key + "` | " + info.type + " | " + value + " | " + info.help + " |";
}

void expect_same(const std::string& heading, const std::vector<SettingInfo>& table) {
  std::vector<std::string> expected;
  std::string pasted;
  for (const auto& info : table) {
    expected.push_back(row(info));
    pasted += expected.back() + "\n";
  }
  EXPECT_EQ(rows_under(heading), expected) << "docs/reference/config.md should say:\n" << pasted;
}

TEST(ConfigDocs, ListEveryKeyAsTheProgramHasIt) {
  expect_same("Keys", setting_table());
  expect_same("Keys of a `[[layer]]` table", layer_table());
}

TEST(ConfigDocs, TheExampleIsAccepted) {
  std::ifstream file(GBC_SOURCE_DIR "/docs/reference/config.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const auto start = page.find("```toml\n");
  ASSERT_NE(start, std::string::npos);
  const auto end = page.find("```", start + 8);
  const auto path = std::filesystem::path(testing::TempDir()) / "gbc-docs-example.toml";
  std::ofstream(path) << page.substr(start + 8, end - start - 8);
  Settings settings;
  EXPECT_NO_THROW(settings.apply_file(path));
  EXPECT_NE(settings.to_json(), Settings().to_json());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gbcompress
