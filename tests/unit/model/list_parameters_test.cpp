#include "model/state_dict_model.h"
#include "unit/model/support.h"

namespace gbcompress {
namespace {

using namespace testing_support;

void expect_alike(const std::vector<NamedParameter>& listed,
                  const std::vector<NamedParameter>& opened) {
  ASSERT_EQ(listed.size(), opened.size());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const ParameterInfo &a = listed[i].info, &b = opened[i].info;
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.local_name, b.local_name) << a.name;
    EXPECT_EQ(a.module_path, b.module_path) << a.name;
    EXPECT_EQ(a.module_type, b.module_type) << a.name;
    EXPECT_EQ(a.shape, b.shape) << a.name;
    EXPECT_EQ(a.dtype, b.dtype) << a.name;
    EXPECT_EQ(listed[i].trainable, opened[i].trainable) << a.name;
    EXPECT_EQ(listed[i].tied_to, opened[i].tied_to) << a.name;
    EXPECT_FALSE(listed[i].tensor.defined()) << a.name;
    EXPECT_GT(a.std, 0) << a.name;
  }
}

TEST(ListParameters, SaysWhatOpeningSays) {
  TemporaryFolder folder;
  const auto file = folder / "m.safetensors";
  write_tensors(file, {{"conv.weight", torch::randn({4, 3, 2, 2})},
                       {"h.0.c_attn.weight", torch::randn({4, 12}).to(torch::kBFloat16)},
                       {"bn.running_mean", torch::randn({4})},
                       {"bn.num_batches_tracked", torch::tensor(17)},
                       {"empty", torch::zeros({0})},
                       {"rnn.weight_ih_l0", torch::randn({12, 5})},
                       {"rnn.weight_hh_l0", torch::randn({12, 4})},
                       {"alone", torch::randn({5})}});
  expect_alike(list_parameters(file, "", Registry()), open_model(file, "", Registry())->tensors());
}

TEST(ListParameters, AsksAnArchitectureForItsLayers) {
  TemporaryFolder folder;
  const auto file = folder / "m.safetensors";
  torch::manual_seed(1);
  const auto model = build_model("resnet20", builtin_registry());
  write_tensors(file, tensors_of(*model));
  expect_alike(list_parameters(file, "resnet20", builtin_registry()),
               open_model(file, "resnet20", builtin_registry())->tensors());
  expect_error([&] { list_parameters(file, "lenet5", builtin_registry()); }, Errc::kShapeMismatch,
               {"lenet5", "conv1.weight", "20, 1, 5, 5", "16, 3, 3, 3"});
  expect_error([&] { list_parameters(file, "nothing", builtin_registry()); }, Errc::kUsage);
  expect_error([&] { list_parameters(folder / "no", "", builtin_registry()); }, Errc::kNotFound);
}

TEST(ListParameters, ReadsNoValues) {
  TemporaryFolder folder;
  const auto file = folder / "m.safetensors";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_tensors(file, {{"fc.weight", torch::full({4, 4}, nan)}});
  EXPECT_FALSE(open_model(file, "", Registry())->tensors().at(0).trainable);
  EXPECT_EQ(list_parameters(file, "", Registry()).size(), 1u);
}

}  // namespace
}  // namespace gbcompress
