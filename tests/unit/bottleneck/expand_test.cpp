// Expansion straight into a file, against expansion in memory.
#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "format/safetensors/safetensors.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "support/files.h"
#include "support/layer_types.h"

#include <gtest/gtest.h>

namespace gbcompress {
namespace {

class ExpandToFile : public ::testing::Test {
 protected:
  NamedParameter parameter(const std::string& name, const std::string& module,
                           std::vector<std::int64_t> shape, DType dtype = DType::kF32) {
    NamedParameter p;
    p.info = {name, "weight", name, module, shape, dtype, 1.0};
    p.tensor = torch::randn(shape).to(to_scalar_type(dtype));
    return p;
  }
  void save(std::vector<NamedParameter> tensors) {
    BottleneckOptions options;
    options.gnet.tile_weights = 400;
    options.gnet.hidden = {4};
    GenomicBottleneck bottleneck(std::move(tensors), types_, options);
    bottleneck.finish();
    bottleneck.save(input_);
  }

  testing::TempDir folder_;
  std::filesystem::path input_ = folder_ / "in.gbz", output_ = folder_ / "out.safetensors";
  Registry types_ = test_registry();
};

TEST_F(ExpandToFile, GivesTheBytesOfExpansionInMemory) {
  torch::manual_seed(3);
  auto tied = parameter("tied.weight", "Linear", {50, 70});
  tied.tied_to = "b.weight";
  auto first = parameter("b.weight", "Linear", {50, 70});
  tied.tensor = first.tensor;
  save({first, tied, parameter("a.weight", "Linear", {130, 90}, DType::kBF16),
        parameter("s.weight", "Symmetric", {40, 40}), parameter("plain.weight", "Other", {7, 3}),
        parameter("empty.weight", "Other", {0, 3})});
  const ArtifactReader artifact = ArtifactReader::open(input_);
  const std::int64_t bytes = expand_to_file(artifact, types_, output_);
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(output_)));

  const auto tensors = expand(artifact, types_);
  const SafetensorsFile file = SafetensorsFile::open(output_);
  ASSERT_EQ(file.tensors().size(), 6u);
  for (const TensorEntry& entry : file.tensors()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedParameter& p) {
      return p.info.name == entry.name;
    });
    ASSERT_NE(found, tensors.end()) << entry.name;
    EXPECT_EQ(entry.dtype, found->info.dtype);
    EXPECT_EQ(entry.shape, found->info.shape);
    ASSERT_EQ(entry.bytes.size(), found->tensor.nbytes()) << entry.name;
    const auto* data = static_cast<const std::byte*>(found->tensor.const_data_ptr());
    EXPECT_TRUE(std::equal(entry.bytes.begin(), entry.bytes.end(), data)) << entry.name;
  }
}

/// Coded, predicted and constant tensors, of a layer type that only places its tiles and of one
/// with a build of its own.
TEST_F(ExpandToFile, KnowsEveryKindOfTensor) {
  torch::manual_seed(4);
  save({parameter("a.weight", "Linear", {50, 70}), parameter("s.weight", "Symmetric", {40, 40})});
  const ArtifactReader plain = ArtifactReader::open(input_);
  for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
    ArtifactWriter writer("", "");
    writer.set_profile(profile);
    std::vector<at::Tensor> expected;
    for (std::size_t i = 0; i < 2; ++i) {
      const ArtifactTensor& tensor = plain.tensors()[i];
      CodedValues values{.grid = default_grid(tensor.shape), .step = -77};
      const at::Tensor drawn = torch::randint(-3, 4, tensor.shape, torch::kInt);
      values.integers.assign(drawn.data_ptr<int>(), drawn.data_ptr<int>() + drawn.numel());
      // G-nets whose parameters are whole steps: the same in both files.
      CodedTheta theta{.steps = std::vector<int>(gnet_blocks(tensor.spec).size(), -48)};
      for (float value : plain.theta(i))
        theta.integers.push_back(static_cast<std::int32_t>(std::lrint(value * 8)));
      ArtifactWriter exact("", "");
      exact.add_generated("x", tensor.dtype, tensor.shape, tensor.spec, Coding::kF32,
                          coded_floats(tensor.spec, theta));
      const at::Tensor made =
          expand(ArtifactReader::from_bytes(exact.encode(), "x"), types_)[0].tensor;
      writer.add_predicted(tensor.name, tensor.dtype, tensor.shape, tensor.spec, theta, values);
      expected.push_back(made + drawn.to(torch::kFloat) * step_size(-77));
      writer.add_generated_coded(tensor.name + "2", tensor.dtype, tensor.shape, tensor.spec, theta);
      expected.push_back(made);
      writer.add_coded(tensor.name + "3", DType::kBF16, tensor.shape, values);
      expected.push_back((drawn.to(torch::kFloat) * step_size(-77)).to(torch::kBFloat16));
    }
    const float two = 2;
    writer.add_constant("two", DType::kF32, {3, 4}, std::as_bytes(std::span(&two, 1)));
    expected.push_back(torch::full({3, 4}, 2.0F));
    writer.write(input_, true);

    const ArtifactReader artifact = ArtifactReader::open(input_);
    const auto tensors = expand(artifact, types_);
    expand_to_file(artifact, types_, output_, true);
    const SafetensorsFile file = SafetensorsFile::open(output_);
    ASSERT_EQ(tensors.size(), expected.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const NamedParameter& got = tensors[i];
      EXPECT_TRUE(at::equal(got.tensor, expected[i])) << got.info.name;
      EXPECT_EQ(got.trainable, got.info.name != "two");
      const auto entry =
          std::find_if(file.tensors().begin(), file.tensors().end(),
                       [&](const TensorEntry& each) { return each.name == got.info.name; });
      ASSERT_NE(entry, file.tensors().end());
      ASSERT_EQ(entry->bytes.size(), got.tensor.nbytes());
      EXPECT_EQ(std::memcmp(entry->bytes.data(), got.tensor.const_data_ptr(), got.tensor.nbytes()),
                0);
    }
  }
}

TEST_F(ExpandToFile, LeavesNothingWhereATypeIsMissing) {
  save({parameter("a.weight", "Linear", {50, 70})});
  try {
    expand_to_file(ArtifactReader::open(input_), Registry(), output_);
    FAIL() << "expanded without the layer type";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kPluginMissing);
  }
  EXPECT_FALSE(std::filesystem::exists(output_));
}

TEST_F(ExpandToFile, ReplacesAFileOnlyWhereAsked) {
  save({parameter("a.weight", "Linear", {50, 70})});
  std::ofstream(output_) << "mine";
  const ArtifactReader artifact = ArtifactReader::open(input_);
  try {
    expand_to_file(artifact, types_, output_);
    FAIL() << "an existing file was replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kExists);
  }
  EXPECT_EQ(std::filesystem::file_size(output_), 4u);
  EXPECT_GT(expand_to_file(artifact, types_, output_, true), 4);
}

}  // namespace
}  // namespace gbcompress
