// What the program chooses by itself.
#include "compress/recipe.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "support/files.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

class RecipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    types_.stage("program", [](Registrar& staging) { register_builtin_models(staging); });
  }
  Registry types_ = test_registry();
};

TEST_F(RecipeTest, MultiplyAddsAreThoseOfProductsAndConvolutions) {
  const auto mlp = build_model("mlp:64-40-10", types_);
  EXPECT_EQ(multiply_adds(*mlp, open_data("digits").train), 64 * 40 + 40 * 10 + 50)
      << "biases count as parameters do";
  // Convolutions of ResNet-20 on 32x32 pictures: 40.5 million, as its paper says.
  const auto resnet = build_model("resnet20", types_);
  const Dataset pictures(torch::randn({2, 3, 32, 32}), torch::zeros({2}, torch::kLong));
  EXPECT_NEAR(multiply_adds(*resnet, pictures), 40.55e6, 0.1e6);
}

TEST_F(RecipeTest, ConvolutionsOfTorchScriptCountAsWell) {
  testing::TempDir folder;
  torch::jit::Module net("__torch__.Net");
  net.register_parameter("weight", torch::ones({4, 3, 3, 3}), false);
  net.define("def forward(self, x):\n  return torch.conv2d(x, self.weight).flatten(1)\n");
  net.save((folder / "net.pt").string());
  const auto model = open_model(folder / "net.pt", "", Registry());
  const Dataset images(torch::randn({2, 3, 10, 10}), torch::zeros({2}, torch::kLong));
  EXPECT_EQ(multiply_adds(*model, images), 8 * 8 * 4 * 3 * 3 * 3);
}

TEST_F(RecipeTest, OnlyWhatIsLeftToTheProgramIsChosen) {
  const auto model = build_model("mlp:64-40-10", types_);
  const Data data = open_data("digits");
  CompressOptions options;
  options.train.epochs = 7;
  options.train.batch = 50;
  choose_recipe(options, *model, data, data.train, /*teacher=*/true);
  EXPECT_EQ(options.train.epochs, 7);
  EXPECT_EQ(options.train.batch, 50);
  EXPECT_EQ(options.train.loss, Loss::kTask);
  options.choose = {.loss = true,
                    .epochs = true,
                    .batch = true,
                    .learning_rate = true,
                    .step_speed = true,
                    .augmentation = true,
                    .lambda = true};
  choose_recipe(options, *model, data, data.train, /*teacher=*/true);
  EXPECT_GT(options.train.epochs, 20);
  EXPECT_EQ(options.train.batch, 32);
  EXPECT_EQ(options.train.loss, Loss::kDistill);
  EXPECT_GT(options.train.labels, 0);
  EXPECT_EQ(options.train.shift, 0) << "rows of numbers are no pictures";
  EXPECT_FALSE(options.choose.epochs);
  options.choose.loss = true;
  options.train.loss = Loss::kTask;
  choose_recipe(options, *model, data, data.train, /*teacher=*/false);
  EXPECT_EQ(options.train.loss, Loss::kTask) << "nobody to learn from";
}

/// Says class 1 where the left half of a picture is brighter than the right one, or where a pixel
/// in the middle column is bright.
class Sides : public Model {
 public:
  explicit Sides(bool middle) : middle_(middle) {}
  std::string arch() const override { return "sides"; }
  bool has_forward() const override { return true; }
  at::Tensor forward(const at::Tensor& images) override {
    const std::int64_t half = images.size(3) / 2;
    const at::Tensor left = images.narrow(3, 0, half).mean({1, 2, 3});
    const at::Tensor right = images.narrow(3, half, half).mean({1, 2, 3});
    const at::Tensor score = middle_ ? images.select(3, half).mean({1, 2}) - 0.5 : left - right;
    return at::stack({-score, score}, 1);
  }
  void train(bool) override {}

 private:
  bool middle_;
};

TEST_F(RecipeTest, PicturesMoveAndMirrorWhereTheModelSeesTheSame) {
  torch::manual_seed(0);
  // Halves of different brightness: moving by a pixel or two changes nothing, mirroring all.
  const at::Tensor labels = torch::randint(2, {400});
  const at::Tensor images = torch::rand({400, 1, 16, 16}) * 0.2;
  for (std::int64_t i = 0; i < 400; ++i)
    images[i].narrow(2, labels[i].item<std::int64_t>() == 1 ? 0 : 8, 8).add_(0.7);
  Sides sides(/*middle=*/false);
  const Augmentation moved =
      harmless_augmentation(sides, Dataset(images, labels), Metric::kAccuracy, 0, 5);
  EXPECT_EQ(moved.shift, 2);
  EXPECT_FALSE(moved.flip);

  // One bright column tells the classes apart: moving it away changes all, and so does mirroring,
  // which brings column 8 to column 7.
  const at::Tensor stripes = torch::zeros({400, 1, 16, 16});
  for (std::int64_t i = 0; i < 400; ++i)
    if (labels[i].item<std::int64_t>() == 1) stripes[i].select(2, 8).fill_(1);
  Sides middle(/*middle=*/true);
  const Augmentation kept =
      harmless_augmentation(middle, Dataset(stripes, labels), Metric::kAccuracy, 0, 5);
  EXPECT_EQ(kept.shift, 0);
  EXPECT_FALSE(kept.flip);
}

}  // namespace
}  // namespace gbcompress
