#include "unit/model/support.h"

#include <fstream>

#include "data/digits_files.h"
#include "gbcompress/model.h"

namespace gbcompress {
namespace {

using namespace testing_support;

TEST(Digits, AreTheFilesOfTheSample) {
  const DigitsFiles files = digits_files();
  for (const auto& [name, bytes] : {std::pair{"train-images-idx3-ubyte", files.train_images},
                                    {"train-labels-idx1-ubyte", files.train_labels},
                                    {"test-images-idx3-ubyte", files.test_images},
                                    {"test-labels-idx1-ubyte", files.test_labels}}) {
    std::ifstream in(std::filesystem::path(GBC_SOURCE_DIR) / "samples" / "digits" / name,
                     std::ios::binary);
    const std::string wanted((std::istreambuf_iterator<char>(in)), {});
    EXPECT_FALSE(wanted.empty());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), wanted);
  }
}

TEST(Digits, AreScaledAndSplit) {
  const Data data = open_data("digits");
  EXPECT_EQ(data.spec, "digits");
  EXPECT_EQ(data.classes, 10);
  EXPECT_EQ(data.metric, Metric::kAccuracy);
  EXPECT_EQ(data.train.size(), 1437);
  EXPECT_EQ(data.test.size(), 360);
  const Batch all = data.train.range(0, 1437);
  EXPECT_EQ(all.inputs.sizes(), (std::vector<std::int64_t>{1437, 64}));
  EXPECT_EQ(all.inputs.scalar_type(), torch::kFloat);
  EXPECT_EQ(all.targets.scalar_type(), torch::kLong);
  EXPECT_EQ(all.inputs.min().item<float>(), 0);
  EXPECT_EQ(all.inputs.max().item<float>(), 1);
  // The set's first row begins 0 0 5 13 9 1 and is a zero; its fifth, held out, is a four.
  EXPECT_EQ(all.inputs[0][3].item<float>(), 13.0f / 16);
  EXPECT_EQ(all.targets[0].item<int>(), 0);
  EXPECT_EQ(data.test.range(0, 1).targets[0].item<int>(), 4);
}

TEST(Digits, TheNetBesideThemScoresAsItsPageSays) {
  const auto file =
      std::filesystem::path(GBC_SOURCE_DIR) / "samples" / "digits" / "mlp-64-128-64-10.safetensors";
  const Data data = open_data("digits");
  const auto model = open_model(file, "mlp", builtin_registry());
  model->train(false);
  torch::NoGradGuard no_grad;
  const Batch test = data.test.range(0, 360);
  EXPECT_EQ((model->forward(test.inputs).argmax(1) == test.targets).sum().item<int>(), 349);
}

TEST(Dataset, GathersRowsInTheOrderAsked) {
  const Dataset set(torch::arange(12.0f).view({4, 3}), torch::arange(4));
  const Batch some = set.gather({3, 0, 3});
  EXPECT_TRUE(torch::equal(some.targets, torch::tensor({3, 0, 3})));
  EXPECT_EQ(some.inputs[2][1].item<float>(), 10);
  EXPECT_EQ(set.range(1, 2).targets[1].item<int>(), 2);
  EXPECT_EQ(set.range(4, 0).inputs.size(0), 0);
  EXPECT_EQ(set.gather({}).inputs.size(0), 0);
  for (std::int64_t bad : {-1, 4}) expect_error([&] { set.gather({0, bad}); }, Errc::kUsage);
  expect_error([&] { set.range(3, 2); }, Errc::kUsage);
  expect_error([&] { set.range(-1, 2); }, Errc::kUsage);
  expect_error([&] { set.range(1, INT64_MAX); }, Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
