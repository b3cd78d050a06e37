#include <nlohmann/json.hpp>
#include <random>

#include "base/near_miss.h"
#include "base/utf8.h"
#include "gbcompress/error.h"
#include "support/files.h"

namespace gbcompress {
namespace {

TEST(Printable, KeepsTextAndEscapesWhatSteersATerminal) {
  EXPECT_EQ(printable("layer1.0.conv1.weight"), "layer1.0.conv1.weight");
  EXPECT_EQ(printable("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a\\x1b[2Jb\\x0a\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m"),
            "\\xc2\\x9b1m")
      << "U+009B begins a terminal command";
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("ab\xe4"), "ab\\xe4");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
}

TEST(Printable, IsValidUtf8WithoutControlsWhateverComesIn) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 24, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const std::string shown = printable(text);
    EXPECT_NO_THROW(nlohmann::json(shown).dump());
    for (std::size_t i = 0; i < shown.size(); ++i) {
      EXPECT_FALSE(utf8_length(shown, i) > 0 && is_control(shown, i));
    }
  }
}

TEST(Utf8, LengthsAtTheEdgesOfEachRange) {
  const auto length = [](std::string_view text) { return utf8_length(text, 0); };
  EXPECT_EQ(length("\x7f"), 1u);
  EXPECT_EQ(length("\xc2\x80"), 2u);
  EXPECT_EQ(length("\xdf\xbf"), 2u);
  EXPECT_EQ(length("\xe0\xa0\x80"), 3u);
  EXPECT_EQ(length("\xed\x9f\xbf"), 3u);
  EXPECT_EQ(length("\xee\x80\x80"), 3u);
  EXPECT_EQ(length("\xf0\x90\x80\x80"), 4u);
  EXPECT_EQ(length("\xf4\x8f\xbf\xbf"), 4u);
  for (const char* bad : {"\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"})
    EXPECT_EQ(length(bad), 0u) << printable(bad);
}

TEST(NearMiss, FindsTyposAndLeavesStrangersAlone) {
  const std::vector<std::string> keys{"ratio", "target", "learning_rate"};
  EXPECT_EQ(nearest("ration", keys), "ratio");
  EXPECT_EQ(nearest("learning-rate", keys), "learning_rate");
  EXPECT_EQ(nearest("zzzzzz", keys), "");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(did_you_mean("taget", keys), "; did you mean target?");
  EXPECT_EQ(did_you_mean("qqqqqqqq", keys), "");
  EXPECT_EQ(did_you_mean("ratios", {"ranks", "rates"}), "; did you mean rates?");
}

TEST(NearMiss, AThirdOfTheLettersMayDifferAndOneOfShortWords) {
  EXPECT_EQ(nearest("world", {"force"}), "");
  EXPECT_EQ(nearest("rank", {"part"}), "");
  EXPECT_EQ(nearest("lr", {"ls"}), "ls");
  EXPECT_EQ(nearest("x", {"y"}), "");
  EXPECT_EQ(nearest("", {"y"}), "");
  EXPECT_EQ(nearest("abcdef", {"abcdxy"}), "abcdxy");
  EXPECT_EQ(nearest("abcde", {"abcxy"}), "");
}

TEST(NearMiss, ExchangedNeighborsAreOneEdit) {
  EXPECT_EQ(edit_distance("taks", "task"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
}

}  // namespace
}  // namespace gbcompress
