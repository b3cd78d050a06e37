// Expansion straight into a file, against expansion in memory.
#include <torch/torch.h>

#include <fstream>

#include "format/safetensors.h"
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
    GenomicBottleneck(std::move(tensors), types_, options).save(input_);
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
