#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bottleneck/parameter_gnets.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

class SaveLoad : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("gbc_save_load_" + std::to_string(::getpid()) + ".gbz");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static torch::nn::Sequential net(unsigned seed, std::int64_t width = 40) {
    torch::manual_seed(seed);
    return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3)),
                                 torch::nn::BatchNorm2d(16), torch::nn::Flatten(),
                                 torch::nn::Linear(64, width));
  }
  static BottleneckOptions options() {
    BottleneckOptions o;
    o.min_elements = 1;
    o.gnet.tile_weights = 300;
    o.gnet.hidden = {3};
    o.coding = Coding::kF32;
    return o;
  }
  Registry registry_ = test_registry();
  std::filesystem::path path_;
};

TEST_F(SaveLoad, ComesBackExactly) {
  auto first = net(1);
  BottleneckOptions o = options();
  GenomicBottleneck from(*first, registry_, o);
  from.finish();
  from.save(path_);
  // Another deviation of the first weights is another output scale, which the file brings along.
  auto third = net(2);
  o.seed = 99;
  GenomicBottleneck to(*third, registry_, o);
  to.load(path_);
  const auto a = first->named_parameters(), b = third->named_parameters();
  for (const auto& item : a) EXPECT_TRUE(at::equal(item.value(), b[item.key()])) << item.key();
  for (const auto& item : first->named_buffers())
    EXPECT_TRUE(at::equal(item.value(), third->named_buffers()[item.key()])) << item.key();
}

TEST_F(SaveLoad, ExpandGivesOriginalNamesShapesAndTypes) {
  auto model = net(1);
  BottleneckOptions rounded = options();
  rounded.coding = Coding::kI8;
  GenomicBottleneck bottleneck(*model, registry_, rounded);
  bottleneck.finish();
  bottleneck.save(path_);
  const auto tensors = expand(ArtifactReader::open(path_), registry_);
  const auto expected = named_parameters(*model);
  ASSERT_EQ(tensors.size(), expected.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].info.name, expected[i].info.name);
    EXPECT_EQ(tensors[i].info.shape, expected[i].info.shape);
    EXPECT_EQ(tensors[i].info.dtype, expected[i].info.dtype);
    EXPECT_TRUE(at::equal(tensors[i].tensor, expected[i].tensor)) << tensors[i].info.name;
  }
}

TEST_F(SaveLoad, TypeWithItsOwnBuildExpands) {
  torch::manual_seed(5);
  NamedParameter p;
  p.info = {"s.weight", "weight", "s", "Symmetric", {30, 30}, DType::kF32, 1.0};
  p.tensor = torch::randn({30, 30}).requires_grad_();
  GenomicBottleneck bottleneck({p}, registry_, options());
  bottleneck.finish();
  bottleneck.save(path_);
  const auto tensors = expand(ArtifactReader::open(path_), registry_);
  EXPECT_TRUE(at::equal(tensors[0].tensor, tensors[0].tensor.t()));
  EXPECT_TRUE(at::equal(tensors[0].tensor, p.tensor.detach()));
}

TEST_F(SaveLoad, RefusesAnotherModelAndChangesNothing) {
  auto model = net(1), other = net(3, 41);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.finish();
  bottleneck.save(path_);
  GenomicBottleneck different(*other, registry_, options());
  const auto before = different.layers()[0].theta.clone();
  try {
    different.load(path_);
    FAIL() << "a file of another model was loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::kShapeMismatch);
    EXPECT_NE(std::string(e.what()).find("3.weight has shape"), std::string::npos) << e.what();
  }
  EXPECT_TRUE(at::equal(before, different.layers()[0].theta));
}

TEST_F(SaveLoad, MissingTypeIsNamedBeforeAnyWork) {
  auto model = net(1);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.finish();
  bottleneck.save(path_);
  try {
    expand(ArtifactReader::open(path_), Registry());
    FAIL() << "expanded without the layer type";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::kPluginMissing);
    EXPECT_NE(std::string(e.what()).find("linear"), std::string::npos) << e.what();
  }
}

TEST_F(SaveLoad, TiedParametersAreStoredOnce) {
  const at::Tensor shared = torch::randn({40, 30}).requires_grad_();
  NamedParameter a, b;
  a.info = {"a.weight", "weight", "a", "Linear", {40, 30}, DType::kF32, 1.0};
  a.tensor = shared;
  b.info = {"b.weight", "weight", "b", "Linear", {40, 30}, DType::kF32, 1.0};
  b.tensor = shared;
  b.tied_to = "a.weight";
  GenomicBottleneck bottleneck({a, b}, registry_, options());
  EXPECT_EQ(bottleneck.layers().size(), 1u);
  bottleneck.finish();
  bottleneck.save(path_);
  const ArtifactReader file = ArtifactReader::open(path_);
  EXPECT_EQ(file.tensors()[1].kind, TensorKind::kTied);
  const auto tensors = expand(file, registry_);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[1].info.shape, (std::vector<std::int64_t>{40, 30}));
  EXPECT_EQ(tensors[0].tensor.data_ptr(), tensors[1].tensor.data_ptr());
}

/// Coded g-nets and values load as what they stand for; predicted tensors cannot be trained on.
TEST_F(SaveLoad, CodedFilesLoadUnlessTheirTensorsArePredicted) {
  auto model = net(1), other = net(1);
  GenomicBottleneck bottleneck(*model, registry_, options());
  bottleneck.finish();
  bottleneck.save(path_);
  const ArtifactReader saved = ArtifactReader::open(path_);
  const auto coded_as = [&](bool predicted) {
    ArtifactWriter writer("", "");
    for (std::size_t i = 0; i < saved.tensors().size(); ++i) {
      const ArtifactTensor& tensor = saved.tensors()[i];
      CodedValues values{.grid = default_grid(tensor.shape), .step = -16};
      values.integers.assign(static_cast<std::size_t>(values.grid.size()), 3);
      if (tensor.kind == TensorKind::kGenerated) {
        CodedTheta theta;
        theta.steps.assign(gnet_blocks(tensor.spec).size(), -32);
        theta.integers.assign(static_cast<std::size_t>(spec_parameters(tensor.spec)), 2);
        if (predicted)
          writer.add_predicted(tensor.name, tensor.dtype, tensor.shape, tensor.spec, theta, values);
        else
          writer.add_generated_coded(tensor.name, tensor.dtype, tensor.shape, tensor.spec, theta);
      } else if (tensor.dtype == DType::kF32) {
        writer.add_coded(tensor.name, tensor.dtype, tensor.shape, values);
      } else {
        writer.add_constant(tensor.name, tensor.dtype, tensor.shape,
                            std::vector<std::byte>(sizeof(std::int64_t), std::byte{1}));
      }
    }
    writer.write(path_, true);
  };
  GenomicBottleneck target(*other, registry_, options());
  coded_as(false);
  target.load(path_);
  EXPECT_TRUE((target.layers()[0].theta == 0.5).all().item<bool>());
  EXPECT_TRUE((other[1]->as<torch::nn::BatchNorm2d>()->running_mean == 1.5).all().item<bool>());
  EXPECT_EQ(other[1]->as<torch::nn::BatchNorm2d>()->num_batches_tracked.item<std::int64_t>(),
            0x0101010101010101);
  coded_as(true);
  try {
    target.load(path_);
    FAIL() << "a predicted tensor was loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::kShapeMismatch);
    EXPECT_NE(std::string(e.what()).find("other g-nets"), std::string::npos) << e.what();
  }
}

TEST(ParameterGNets, GlobsMatchWholeNames) {
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("encoder.*.weight", "encoder.layers.0.linear1.weight"));
  EXPECT_FALSE(matches_glob("encoder.*.weight", "encoder.layers.0.linear1.bias"));
  EXPECT_FALSE(matches_glob("weight", "0.weight"));
  EXPECT_TRUE(matches_glob("*a*b*", "xxaxxbab"));
  EXPECT_FALSE(matches_glob("a*b", "ab."));
}

TEST(ParameterGNets, RulesOverrideKeyByKeyAndLastWins) {
  const Registry registry = test_registry();
  NamedParameter p;
  p.info = {"fc.weight", "weight", "fc", "Unknown", {60, 50}, DType::kF32, 1.0};
  p.tensor = torch::randn({60, 50}).requires_grad_();
  BottleneckOptions o;
  o.gnet.hidden = {4};
  EXPECT_FALSE(spec_of(p, registry, o)) << "nobody claims the module";
  o.layers = {{.match = "*", .type = "linear", .tile_weights = 400},
              {.match = "fc.*", .hidden = std::vector<std::int64_t>{5}}};
  const auto spec = spec_of(p, registry, o);
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->tile_rows, 20);
  EXPECT_EQ(spec->hidden, (std::vector<std::int64_t>{5}));
  o.layers.push_back({.match = "fc.weight", .type = "plain"});
  EXPECT_FALSE(spec_of(p, registry, o));
  o.layers.back().type = "nobody";
  EXPECT_THROW(spec_of(p, registry, o), Error);
}

}  // namespace
}  // namespace gbcompress
