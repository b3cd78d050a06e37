#include "unit/model/support.h"

#include "gbcompress/model.h"

namespace gbcompress {
namespace {

using namespace testing_support;

/// An IDX file of bytes that count up from `start`.
void write_idx(const std::filesystem::path& file, const std::vector<int>& shape, int start,
               int modulus = 256) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  int n = 1;
  for (int side : shape) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(side >> shift & 255);
    n *= side;
  }
  for (int i = 0; i < n; ++i) bytes += static_cast<char>((start + i) % modulus);
  write_bytes(file, bytes);
}

struct Mnist : ::testing::Test {
  void SetUp() override {
    write_idx(folder / "train-images-idx3-ubyte", {5, 2, 3}, 250);
    write_idx(folder / "train-labels.idx1-ubyte", {5}, 3, 10);
    write_idx(folder / "t10k-images.idx3-ubyte", {2, 2, 3}, 0);
    write_idx(folder / "t10k-labels-idx1-ubyte", {2}, 0, 10);
  }
  std::string spec() const { return "mnist:" + folder.path().string(); }
  TemporaryFolder folder;
};

TEST_F(Mnist, ReadsBothSpellings) {
  const Data data = open_data(spec());
  EXPECT_EQ(data.classes, 10);
  EXPECT_EQ(data.train.size(), 5);
  EXPECT_EQ(data.test.size(), 2);
  const Batch batch = data.train.range(0, 5);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{5, 1, 2, 3}));
  EXPECT_EQ(batch.inputs[0][0][1][2].item<float>(), 1);  // 255
  EXPECT_EQ(batch.inputs[1][0][0][1].item<float>(), 1.0f / 255);
  EXPECT_EQ(batch.targets[4].item<int>(), 7);
}

TEST_F(Mnist, NormalisesWhenAsked) {
  const Data data = open_data(spec(), {.mean = {0.5}, .std = {0.25}});
  EXPECT_FLOAT_EQ(data.train.range(0, 1).inputs[0][0][1][2].item<float>(), 2);
  const Data only_mean = open_data(spec(), {.mean = {0.5}});
  EXPECT_FLOAT_EQ(only_mean.train.range(0, 1).inputs[0][0][1][2].item<float>(), 0.5);
  expect_error(
      [&] {
        open_data(spec(), {.mean = {0.5, 0.5}});
      },
      Errc::kUsage, {"mean", "1 channel"});
  expect_error([&] { open_data(spec(), {.std = {0}}); }, Errc::kUsage, {"above 0"});
  expect_error([&] { open_data(spec(), {.mean = {NAN}}); }, Errc::kUsage);
}

TEST_F(Mnist, WrongFolders) {
  write_idx(folder / "train-labels.idx1-ubyte", {4}, 0, 10);
  expect_error([&] { open_data(spec()); }, Errc::kShapeMismatch, {"5 images", "4 labels"});
  write_idx(folder / "train-labels.idx1-ubyte", {5, 1}, 0, 10);
  expect_error([&] { open_data(spec()); }, Errc::kShapeMismatch, {"dimensions"});
  std::filesystem::remove(folder / "train-labels.idx1-ubyte");
  expect_error([&] { open_data(spec()); }, Errc::kNotFound, {"train-labels-idx1-ubyte"});
  expect_error([&] { open_data("mnist:" + (folder / "none").string()); }, Errc::kNotFound);
}

/// Record `i` has the label i % 10 and red 10 i, green 20 i, blue 255.
std::string cifar(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i)
    bytes += static_cast<char>(i % 10) + std::string(1024, static_cast<char>(10 * i)) +
             std::string(1024, static_cast<char>(20 * i)) + std::string(1024, '\xff');
  return bytes;
}

TEST(Cifar10, TrainAndTestFiles) {
  TemporaryFolder folder;
  write_bytes(folder / "a", cifar(0, 4));
  write_bytes(folder / "b", cifar(4, 3));
  const Data data = open_data("cifar10:" + (folder / "a").string() + "," + (folder / "b").string());
  EXPECT_EQ(data.train.size(), 4);
  EXPECT_EQ(data.test.size(), 3);
  EXPECT_EQ(data.classes, 10);
  const at::Tensor inputs = data.test.range(0, 3).inputs;
  EXPECT_EQ(inputs.sizes(), (std::vector<std::int64_t>{3, 3, 32, 32}));
  EXPECT_NEAR(inputs[1][0][31][31].item<float>(), (50 / 255.0 - 0.485) / 0.229, 1e-6);
  EXPECT_NEAR(inputs[1][1][0][0].item<float>(), (100 / 255.0 - 0.456) / 0.224, 1e-6);
  EXPECT_NEAR(inputs[1][2][7][7].item<float>(), (1 - 0.406) / 0.225, 1e-6);
  EXPECT_EQ(data.test.range(0, 3).targets[2].item<int>(), 6);
}

TEST(Cifar10, OneFileHoldsOutItsLastFifth) {
  TemporaryFolder folder;
  write_bytes(folder / "all.bin", cifar(0, 11));
  const Data data =
      open_data("cifar10:" + (folder / "all.bin").string(), {.mean = {0, 0, 0}, .std = {1, 1, 1}});
  EXPECT_EQ(data.train.size(), 9);
  EXPECT_EQ(data.test.size(), 2);
  EXPECT_NEAR(data.test.range(0, 1).inputs[0][0][0][0].item<float>(), 90 / 255.0, 1e-6);
  write_bytes(folder / "few.bin", cifar(0, 4));
  expect_error([&] { open_data("cifar10:" + (folder / "few.bin").string()); }, Errc::kUsage);
}

TEST(Cifar10, Folders) {
  TemporaryFolder folder;
  const std::string spec = "cifar10:" + folder.path().string();
  expect_error([&] { open_data(spec); }, Errc::kNotFound, {"data_batch_1.bin"});
  for (int i = 1; i <= 5; ++i)
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"), cifar(i, 2));
  write_bytes(folder / "test_batch.bin", cifar(0, 3));
  EXPECT_EQ(open_data(spec).train.size(), 10);
  EXPECT_EQ(open_data(spec).train.range(9, 1).targets[0].item<int>(), 6);
  EXPECT_EQ(open_data(spec).test.size(), 3);
  write_bytes(folder / "train.bin", cifar(0, 7));
  write_bytes(folder / "test.bin", cifar(0, 1));
  EXPECT_EQ(open_data(spec).train.size(), 7) << "train.bin is looked for first";
}

TEST(OpenData, WrongSpecs) {
  expect_error([] { open_data("mnits:x"); }, Errc::kUsage, {"mnits", "did you mean mnist"});
  expect_error([] { open_data(""); }, Errc::kUsage);
  expect_error([] { open_data("mnist"); }, Errc::kUsage, {"mnist:DIR"});
  expect_error([] { open_data("text:"); }, Errc::kUsage, {"text:FILE"});
  expect_error([] { open_data("digits:x"); }, Errc::kUsage, {"built in"});
  expect_error([] { open_data("cifar10:/nowhere/at/all"); }, Errc::kNotFound);
}

}  // namespace
}  // namespace gbcompress
