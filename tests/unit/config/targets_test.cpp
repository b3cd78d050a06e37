#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress {
namespace {

template <typename F>
std::string message_of(F&& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::kConfig || error.code() == Errc::kUsage) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(TargetBytes, FollowEachKindOfTarget) {
  const InputSize input{.file_bytes = 4000, .weights = 1000, .real_bits = 16};
  EXPECT_EQ(target_bytes({}, {.file_bytes = 1000, .weights = 100}), std::nullopt);
  EXPECT_EQ(target_bytes({.ratio = 4}, input), 1000);
  EXPECT_EQ(target_bytes({.ratio = 1.25}, input), 3200);
  EXPECT_EQ(target_bytes({.max_bytes = 500}, input), 500);
  EXPECT_EQ(target_bytes({.bits = 4}, input), 500);
  EXPECT_EQ(target_bytes({.bits = 15.5}, input), 1937);
  EXPECT_EQ(target_bytes({.bits = 32}, {.file_bytes = 4000, .weights = 1000}), 4000);
  for (const Target& wrong :
       {Target{.ratio = 0}, Target{.ratio = std::nan("")}, Target{.ratio = 1e9},
        Target{.max_bytes = 99}, Target{.bits = 0}, Target{.bits = -1}, Target{.bits = 1e-9}})
    EXPECT_THROW(target_bytes(wrong, input), Error);
}

TEST(TargetBytes, NoSmallerThanTheModelNameTheExactMode) {
  const InputSize input{.file_bytes = 4100, .weights = 1000, .real_bits = 16};
  for (const Target& wrong :
       {Target{.ratio = 1}, Target{.ratio = 0.5}, Target{.bits = 16}, Target{.bits = 32}}) {
    const std::string message = message_of([&] { target_bytes(wrong, input); });
    EXPECT_NE(message.find("; use `mode` exact and no target to keep every bit"), std::string::npos)
        << message;
  }
  EXPECT_EQ(
      message_of([&] { target_bytes({.bits = 16}, input); }),
      "`bits` must be below the 16 bits that the model takes for a weight, got 16; use `mode` "
      "exact and no target to keep every bit");
  EXPECT_EQ(message_of([] { Settings().apply("target.ratio", "0.5", "--ratio"); }),
            "--ratio must be a number above 1, such as 8, 8x or 8:1, not 0.5; use `mode` exact and "
            "no target to keep every bit");
  EXPECT_EQ(message_of([] { Settings().apply("target.ratio", "-2", "--ratio"); }),
            "--ratio must be a number above 1, such as 8, 8x or 8:1, not -2");
}

TEST(UnknownKeys, AreNamedTogetherWithTheKeysTheyMean) {
  const auto unknown = [](const std::string& key) {
    return message_of([&] { Settings().apply_assignment(key + "=3"); });
  };
  EXPECT_EQ(unknown("lamda"), "`set`: unknown key lamda; did you mean rate.lambda?");
  EXPECT_EQ(unknown("train.lambda"), "`set`: unknown key train.lambda; did you mean rate.lambda?");
  EXPECT_EQ(unknown("epoch"), "`set`: unknown key epoch; did you mean train.epochs?");
  EXPECT_EQ(unknown("zzzzzzzz"), "`set`: unknown key zzzzzzzz");
  EXPECT_EQ(unknown("train.foo"), "`set`: unknown key train.foo");
  const std::string several = unknown("lr");
  EXPECT_NE(several.find(" or "), std::string::npos) << several;
  EXPECT_NE(several.find("rate.lr"), std::string::npos) << several;

  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "unknown.toml";
  std::ofstream(file) << "[rate]\nlamda = 1\n[[layer]]\nmath = 'a'\n";
  Settings settings;
  EXPECT_EQ(
      message_of([&] {
        settings.apply_below_flags(file, {"train.epochs=3", "epoch=2"});
      }),
      "3 keys are unknown:\n  " + file.string() +
          ":2:1: unknown key rate.lamda; did you mean rate.lambda?\n  " + file.string() +
          ":4:1: unknown key layer.math; did you mean match?\n  `set`: unknown key epoch; did "
          "you mean train.epochs?");
  EXPECT_TRUE(settings.given.empty());
}

}  // namespace
}  // namespace gbcompress
