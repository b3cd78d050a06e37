#include "unit/model/support.h"

#include "gbcompress/model.h"

namespace gbcompress {
namespace {

using namespace testing_support;

std::string spell(const at::Tensor& tokens, const std::string& alphabet) {
  std::string text;
  for (std::int64_t i = 0; i < tokens.size(0); ++i)
    text += alphabet.at(static_cast<std::size_t>(tokens[i].item<std::int64_t>()));
  return text;
}

TEST(Text, WindowsAndTheCharactersBehindThem) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "hello world\n"[(i * 7 + i / 12) % 12];
  write_bytes(folder / "t.txt", text);
  const Data data = open_data("text:" + (folder / "t.txt").string(), {.context = 6});
  const std::string alphabet = "\n dehlorw";
  EXPECT_EQ(data.classes, 9);
  EXPECT_EQ(data.metric, Metric::kNatsPerChar);
  // 180 characters to learn from, a window every 3; 20 held out, a window every 6.
  EXPECT_EQ(data.train.size(), (179 - 6) / 3 + 1);
  EXPECT_EQ(data.test.size(), 3);
  const Batch learn = data.train.gather({0, 57});
  EXPECT_EQ(learn.inputs.scalar_type(), torch::kLong);
  EXPECT_EQ(spell(learn.inputs[0], alphabet), text.substr(0, 6));
  EXPECT_EQ(spell(learn.inputs[1], alphabet), text.substr(171, 6));
  EXPECT_EQ(spell(learn.targets[1], alphabet), text.substr(172, 6));
  const Batch test = data.test.range(0, 3);
  EXPECT_EQ(spell(test.inputs[0], alphabet), text.substr(180, 6));
  EXPECT_EQ(spell(test.targets[2], alphabet), text.substr(193, 6));
}

TEST(Text, TheHeldOutTenthMustHoldAWindow) {
  TemporaryFolder folder;
  const std::string spec = "text:" + (folder / "t.txt").string();
  std::string text(51, 'a');
  text.back() = 'b';
  write_bytes(folder / "t.txt", text);
  EXPECT_EQ(open_data(spec, {.context = 5}).test.size(), 1);
  expect_error([&] { open_data(spec, {.context = 6}); }, Errc::kUsage, {"51 characters"});
  EXPECT_EQ(open_data(spec, {.context = 1}).test.size(), 5);
  expect_error([&] { open_data(spec, {.context = 0}); }, Errc::kUsage, {"1 to 65536"});
  expect_error([&] { open_data(spec, {.context = 65537}); }, Errc::kUsage);
  expect_error([&] { open_data(spec, {.mean = {1}}); }, Errc::kUsage);
  write_bytes(folder / "t.txt", "");
  expect_error([&] { open_data(spec); }, Errc::kUsage, {"0 characters"});
  expect_error([&] { open_data("text:" + (folder / "none").string()); }, Errc::kNotFound);
}

}  // namespace
}  // namespace gbcompress
