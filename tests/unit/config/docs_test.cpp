#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
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

/// The rows of a source as pairs of a key and the field that it sets.
std::vector<std::pair<std::string, std::string>> fields_of_keys(const std::string& source) {
  std::ifstream file(GBC_SOURCE_DIR "/core/src/config/" + source);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  static const std::regex row(R"re(_row<[SL]>\(\s*"([a-z_.0-9]+)")re");
  static const std::regex field(R"re(GBC_(?:TARGET_)?FIELD\(([a-z_.0-9]+)\))re");
  std::vector<std::pair<std::string, std::string>> result;
  for (auto each = std::sregex_iterator(all.begin(), all.end(), row);
       each != std::sregex_iterator(); ++each) {
    std::smatch found;
    const auto behind = all.begin() + each->position() + each->length();
    if (std::regex_search(behind, all.end(), found, field))
      result.emplace_back((*each)[1], found[1]);
  }
  return result;
}

/// "optim.plain_lr" sets plain_optimizer.lr: but for a word in front of one of them, the last parts
/// are the same.
TEST(ConfigNames, AKeyAndItsFieldAreSpelledAlike) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::size_t compared = 0;
  for (const char* source : {"setting_rows.cpp", "target_rows.cpp"})
    for (const auto& [key, path] : fields_of_keys(source)) {
      const std::string name = last(key), field = last(path);
      EXPECT_TRUE(name == field || name.ends_with("_" + field) || field.ends_with("_" + name))
          << key << " sets " << path;
      ++compared;
    }
  EXPECT_EQ(compared, setting_table().size() + layer_table().size());
}

}  // namespace
}  // namespace gbcompress
