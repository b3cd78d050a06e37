#include "base/glob.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gbcompress {
namespace {

TEST(GlobSet, MatchesWhatAnyOfItsPatternsMatches) {
  std::mt19937 random(1);
  const auto text = [&](const char* letters, unsigned count) {
    std::string made(random() % 6, ' ');
    for (char& c : made) c = letters[random() % count];
    return made;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> patterns(random() % 5);
    for (std::string& pattern : patterns) pattern = text("ab*", 3);
    const GlobSet set(patterns);
    const std::string name = text("ab", 2);
    EXPECT_EQ(set.matches(name),
              std::any_of(patterns.begin(), patterns.end(),
                          [&](const std::string& each) { return matches_glob(each, name); }))
        << name;
  }
}

/// Each name against each would take 10^10 comparisons, about a minute.
TEST(GlobSet, AHundredThousandNamesTakeNoTime) {
  std::vector<std::string> names;
  for (int i = 0; i < 100'000; ++i) names.push_back("layers." + std::to_string(i) + ".weight");
  names.emplace_back("head.*");
  const GlobSet set(names);
  for (const std::string& name : names) ASSERT_TRUE(set.matches(name));
  for (int i = 0; i < 100'000; ++i)
    ASSERT_FALSE(set.matches("layers." + std::to_string(i) + ".bias"));
  EXPECT_TRUE(set.matches("head.bias"));
}

}  // namespace
}  // namespace gbcompress
