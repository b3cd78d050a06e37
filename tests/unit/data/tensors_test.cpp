#include "unit/model/support.h"

#include "gbcompress/model.h"

namespace gbcompress {
namespace {

using namespace testing_support;

struct TensorData : ::testing::Test {
  Data open(const Tensors& tensors, const std::string& kind = "tensors:") {
    write_tensors(folder / "d.safetensors", tensors);
    return open_data(kind + (folder / "d.safetensors").string());
  }
  TemporaryFolder folder;
};

TEST_F(TensorData, HoldsOutTheLastTenth) {
  const at::Tensor inputs = torch::randn({25, 2, 3});
  const Data data =
      open({{"inputs", inputs.to(torch::kDouble)}, {"targets", torch::arange(25).to(torch::kInt)}});
  EXPECT_EQ(data.train.size(), 23);
  EXPECT_EQ(data.test.size(), 2);
  EXPECT_EQ(data.classes, 25);
  EXPECT_EQ(data.metric, Metric::kAccuracy);
  EXPECT_TRUE(torch::equal(data.test.range(0, 2).inputs, inputs.slice(0, 23)));
  EXPECT_TRUE(torch::equal(data.test.range(0, 2).targets, torch::tensor({23, 24})));
}

TEST_F(TensorData, TakesItsOwnTestPart) {
  const Data data = open({{"inputs", torch::zeros({4, 3}, torch::kInt)},
                          {"targets", torch::zeros({4, 3}, torch::kLong)},
                          {"test_inputs", torch::ones({1, 3}, torch::kByte)},
                          {"test_targets", torch::full({1, 3}, 6)}});
  EXPECT_EQ(data.train.size(), 4);
  EXPECT_EQ(data.test.range(0, 1).inputs.scalar_type(), torch::kLong);
  EXPECT_EQ(data.classes, 7);
  EXPECT_EQ(data.metric, Metric::kNatsPerChar);
}

TEST_F(TensorData, InputsAloneWaitForAnOriginal) {
  const Tensors inputs = {{"inputs", torch::zeros({20, 3, 2})}};
  const Data classes = open(inputs), features = open(inputs, "features:");
  EXPECT_FALSE(classes.has_targets);
  EXPECT_EQ(classes.metric, Metric::kAccuracy);
  EXPECT_FALSE(features.has_targets);
  EXPECT_EQ(features.metric, Metric::kOutputError);
  EXPECT_EQ(features.train.size(), 18);
  EXPECT_EQ(features.test.size(), 2);
}

TEST_F(TensorData, PredictionsOfASample) {
  const at::Tensor x = torch::zeros({4, 3});
  EXPECT_EQ(Dataset(x, torch::zeros({4}, torch::kLong)).predictions(), 1);
  EXPECT_EQ(Dataset(x, torch::zeros({4, 5}, torch::kLong)).predictions(), 5);
  EXPECT_EQ(Dataset(x, torch::zeros({4, 7})).predictions(), 1);
  EXPECT_EQ(Dataset(x, torch::zeros({4, 5, 7})).predictions(), 5);
}

TEST_F(TensorData, WrongFiles) {
  const at::Tensor x = torch::zeros({4, 3}), y = torch::zeros({4}, torch::kLong);
  expect_error([&] { open({{"x", x}}); }, Errc::kNotFound, {"inputs and targets"});
  expect_error([&] { open({{"targets", y}}); }, Errc::kNotFound, {"no inputs"});
  expect_error(
      [&] {
        open({{"inputs", x}, {"test_inputs", x}, {"test_targets", y}});
      },
      Errc::kNotFound, {"neither"});
  expect_error(
      [&] {
        open({{"inputs", x}, {"targets", y}}, "features:");
      },
      Errc::kUsage, {"inputs alone"});
  expect_error(
      [&] {
        open({{"inputs", x}, {"targets", y}, {"test_inputs", x}});
      },
      Errc::kNotFound, {"test_targets"});
  expect_error([&] { open({{"inputs", x}, {"targets", y.slice(0, 1)}}); }, Errc::kShapeMismatch);
  expect_error(
      [&] {
        open({{"inputs", x}, {"targets", y.to(torch::kFloat)}});
      },
      Errc::kShapeMismatch, {"integers"});
  expect_error([&] { open({{"inputs", x}, {"targets", y - 1}}); }, Errc::kCorrupt);
  expect_error([&] { open({{"inputs", x / 0}, {"targets", y}}); }, Errc::kNonFinite, {"inputs"});
  expect_error(
      [&] {
        open({{"inputs", x.slice(0, 0, 1)}, {"targets", y.slice(0, 0, 1)}});
      },
      Errc::kUsage, {"at least 2"});
  expect_error(
      [&] {
        open({{"inputs", x}, {"targets", y}, {"test_inputs", x.slice(1, 1)}, {"test_targets", y}});
      },
      Errc::kShapeMismatch, {"different shape"});
}

}  // namespace
}  // namespace gbcompress
