#include "config/removed_names.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "config/setting_rows.h"
#include "gbcompress/error.h"
#include "gbcompress/settings.h"

namespace gbcompress {
namespace {

template <typename F>
std::string refusal(F&& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kConfig);
    return error.what();
  }
  return "no error";
}

std::set<std::string> present_keys() {
  std::set<std::string> keys;
  for (const auto& info : setting_table()) keys.insert(info.key);
  for (const auto& info : layer_table()) keys.insert("layer." + info.key);
  return keys;
}

TEST(RemovedNames, AreNamesOfNothingAndComeOnce) {
  const std::set<std::string> present = present_keys();
  std::set<std::string_view> names;
  for (const RemovedName& each : removed_names()) {
    EXPECT_FALSE(present.contains(std::string(each.name))) << each.name;
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_FALSE(each.instead.empty()) << each.name;
  }
}

TEST(RemovedNames, LeadToKeysThatThereAre) {
  const std::set<std::string> present = present_keys();
  std::set<std::string> sections;
  for (const std::string& key : present) sections.insert(key.substr(0, key.find('.')));
  int found = 0;
  for (const RemovedName& each : removed_names()) {
    std::string word;
    for (const char c : std::string(each.instead) + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.') {
        word += c;
        continue;
      }
      if (word.find('.') != std::string::npos &&
          sections.contains(word.substr(0, word.find('.')))) {
        EXPECT_TRUE(present.contains(word)) << each.name << ": " << word;
        ++found;
      }
      word.clear();
    }
  }
  EXPECT_GE(found, 2);
}

TEST(RemovedNames, ModesLeadToModesThatThereAre) {
  for (const RemovedName& each : removed_names()) {
    if (!each.name.starts_with("mode=") || each.instead.find('`') != std::string_view::npos)
      continue;
    const std::string to(each.instead.substr(std::string_view("use ").size()));
    EXPECT_NO_THROW(Settings().apply("weights.mode", to, "--mode")) << each.name;
  }
}

TEST(RemovedNames, EverySourceOfSettingsSaysWhatToUse) {
  EXPECT_EQ(refusal([] { Settings().apply_assignment("optim.eps=1e-7"); }),
            "`set`: optim.eps was removed; Adam's epsilon is 1e-8");
  EXPECT_EQ(refusal([] { Settings().apply("weights.mode", "residual", "--mode"); }),
            "--mode must be one of auto, quantized, generated, exact, not \"residual\"; use "
            "quantized");
  EXPECT_EQ(refusal([] { Settings().apply("weights.mode", "fast", "--mode"); }),
            "--mode must be one of auto, quantized, generated, exact, not \"fast\"; use `effort` "
            "fast");

  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "removed.toml";
  std::ofstream(file) << "[train]\nmirror = true\n[[layer]]\nmatch = 'a'\nkernel_code = 'gray'\n";
  EXPECT_EQ(refusal([&] { Settings().apply_file(file); }),
            "2 keys are unknown:\n  " + file.string() +
                ":2:1: train.mirror was removed; use train.flip\n  " + file.string() +
                ":5:1: layer.kernel_code was removed; one_hot codes number the positions of a "
                "convolution's kernel");
  std::ofstream(file) << "[[layer]]\nmatch = 'a'\nmode = 'raw'\n";
  EXPECT_EQ(refusal([&] { Settings().apply_file(file); }),
            file.string() +
                ":3:8: layer.mode must be one of quantized, generated, exact, not \"raw\"; use "
                "exact");
  std::filesystem::remove(file);

  for (const RemovedName& each : removed_names()) {
    if (each.name.find('.') == std::string_view::npos || each.name.starts_with("layer.")) continue;
    const std::string variable = environment_name(std::string(each.name));
    ::setenv(variable.c_str(), "1", 1);
    EXPECT_EQ(refusal([] { Settings().apply_environment(); }),
              variable + ": " + removal_of(each.name));
    ::unsetenv(variable.c_str());
  }
}

}  // namespace
}  // namespace gbcompress
