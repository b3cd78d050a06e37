#include "gbcompress/decode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>

#include "base/random.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

GNetSpec spec_of(const char* type) {
  GNetSpec spec;
  spec.type_id = type;
  spec.shape = {30, 40};
  spec.tile_rows = 12;
  spec.tile_cols = 16;
  spec.hidden = {6};
  spec.output_scale = 0.3F;
  return spec;
}

std::vector<float> theta_of(const GNetSpec& spec) {
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  RandomStream(7, "decode test").fill_normal(theta, 0, 0.4F);
  return theta;
}

/// A tensor of every kind and of every type that numbers may have.
ArtifactReader every_kind(const char* type = "linear") {
  const GNetSpec spec = spec_of(type);
  CodedTheta theta;
  theta.steps.assign(gnet_blocks(spec).size(), -40);
  theta.integers.resize(static_cast<std::size_t>(spec_parameters(spec)));
  for (std::size_t n = 0; n < theta.integers.size(); ++n)
    theta.integers[n] = static_cast<std::int32_t>(n % 13) - 6;
  CodedValues values{.grid = default_grid(spec.shape), .step = -70};
  for (int n = 0; n < 1200; ++n) values.integers.push_back(n % 7 - 3);
  ArtifactWriter writer("", "");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    const std::string name(dtype_name(dtype));
    writer.add_generated(name + " generated", dtype, spec.shape, spec, Coding::kF32,
                         theta_of(spec));
    writer.add_predicted(name + " predicted", dtype, spec.shape, spec, theta, values);
    writer.add_coded(name + " coded", dtype, spec.shape, values);
  }
  const float one = 1;
  writer.add_constant("constant", DType::kF32, {9}, std::as_bytes(std::span(&one, 1)));
  writer.add_plain("plain", DType::kU8, {5}, testing::to_bytes("12345"));
  writer.add_plain("empty", DType::kF32, {0, 3}, {});
  writer.add_tied("tied", "F16 predicted");
  return ArtifactReader::from_bytes(writer.encode(), "x.gbz");
}

TEST(Decode, TheFileHoldsEveryTensor) {
  const testing::TempDir folder;
  const ArtifactReader artifact = every_kind();
  const auto path = folder / "x.safetensors";
  const std::int64_t bytes = decode_to_file(artifact, path, false);
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), artifact.tensors().size());
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& stored = artifact.tensors()[i];
    const auto entry = std::find_if(file.tensors().begin(), file.tensors().end(),
                                    [&](const TensorEntry& e) { return e.name == stored.name; });
    ASSERT_NE(entry, file.tensors().end()) << stored.name;
    EXPECT_EQ(entry->shape, stored.shape);
    EXPECT_EQ(entry->dtype, stored.dtype);
    const auto wanted = decode_tensor(artifact, i);
    ASSERT_EQ(entry->bytes.size(), wanted.size()) << stored.name;
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), entry->bytes.begin())) << stored.name;
  }
}

TEST(Decode, FloatsOfEveryTensorHoweverItWasStored) {
  const auto elements = []<typename T>(std::vector<T> values) {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  ArtifactWriter writer("", "");
  const float third = 1.0F / 3;
  writer.add_plain("F32 plain", DType::kF32, {2}, elements(std::vector<float>{third, -2}));
  writer.add_constant("F32 constant", DType::kF32, {2}, elements(std::vector<float>{third}));
  writer.add_tied("tied", "F32 plain");
  writer.add_plain("F64", DType::kF64, {2}, elements(std::vector<double>{1.0 / 3, -2}));
  writer.add_plain("F16", DType::kF16, {1}, elements(std::vector<std::uint16_t>{0x3c00}));
  writer.add_plain("BF16", DType::kBF16, {1}, elements(std::vector<std::uint16_t>{0xbf80}));
  writer.add_plain("BOOL", DType::kBool, {2}, elements(std::vector<std::uint8_t>{0, 1}));
  writer.add_plain("I8", DType::kI8, {2}, elements(std::vector<std::int8_t>{-128, 127}));
  writer.add_plain("U16", DType::kU16, {1}, elements(std::vector<std::uint16_t>{65535}));
  writer.add_plain("I64", DType::kI64, {2}, elements(std::vector<std::int64_t>{-5, 16777217}));
  writer.add_plain("empty", DType::kF32, {0, 3}, {});
  writer.add_plain("C64", DType::kC64, {1}, elements(std::vector<float>{1, 2}));
  const ArtifactReader artifact = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  const std::map<std::string, std::vector<float>> wanted = {{"F32 plain", {third, -2}},
                                                            {"F32 constant", {third, third}},
                                                            {"tied", {third, -2}},
                                                            {"F64", {third, -2}},
                                                            {"F16", {1}},
                                                            {"BF16", {-1}},
                                                            {"BOOL", {0, 1}},
                                                            {"I8", {-128, 127}},
                                                            {"U16", {65535}},
                                                            {"I64", {-5, 16777216}},
                                                            {"empty", {}}};
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    const DecodedTensor decoded = decode_elements(artifact, i);
    EXPECT_EQ(decoded.dtype(), tensor.dtype) << tensor.name;
    if (tensor.name == "C64") {
      EXPECT_EQ(code_of([&] { decoded.floats(); }), Errc::kUnsupported);
      continue;
    }
    EXPECT_EQ(decoded.floats(), wanted.at(tensor.name)) << tensor.name;
    EXPECT_EQ(decode_elements(artifact, i).floats(), wanted.at(tensor.name)) << tensor.name;
    EXPECT_EQ(decode_elements(artifact, i).take_bytes(), decode_tensor(artifact, i));
  }
  // Of values that are computed, the same as of the bytes.
  const ArtifactReader computed = every_kind();
  for (std::size_t i = 0; i < computed.tensors().size(); ++i) {
    const DecodedTensor decoded = decode_elements(computed, i);
    const DecodedTensor stored(decoded.dtype(), decode_tensor(computed, i));
    EXPECT_EQ(decoded.floats(), stored.floats()) << computed.tensors()[i].name;
  }
}

TEST(Decode, ThreadsChangeNoBit) {
  const ArtifactReader artifact = every_kind();
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i)
    EXPECT_EQ(decode_tensor(artifact, i, {.threads = 1}),
              decode_tensor(artifact, i, {.threads = 5}))
        << artifact.tensors()[i].name;
}

TEST(Decode, ABuilderGetsItsTiles) {
  const ArtifactReader artifact = every_kind("folded");
  std::vector<std::string> asked;
  const DecodeOptions options = {.builder = [&](const ArtifactTensor& tensor) -> TileBuilder {
    asked.push_back(tensor.spec.type_id);
    return [](const ArtifactTensor& of, std::span<const float> tiles) {
      EXPECT_EQ(tiles.size(), static_cast<std::size_t>(3 * 3 * 12 * 16));
      std::vector<float> values(static_cast<std::size_t>(of.spec.grid().elements()));
      values[0] = std::accumulate(tiles.begin(), tiles.end(), 0.0F);
      values[1] = 2;
      return values;
    };
  }};
  const auto built = decode_tensor(artifact, 0, options);
  EXPECT_EQ(asked, std::vector<std::string>{"folded"});
  float values[3];
  ASSERT_EQ(built.size(), 4800u);
  std::memcpy(values, built.data(), sizeof values);
  EXPECT_NE(values[0], 0);
  EXPECT_EQ(values[1], 2);
  EXPECT_EQ(values[2], 0);
  // What integers stand for is added to the prediction: 1200 of them, -3, -2, -1, ... times
  // 2^(-70/16).
  const auto sum = decode_tensor(artifact, 1, options);
  std::memcpy(values, sum.data(), sizeof values);
  EXPECT_EQ(values[1], 2 + -2 * step_size(-70));
}

TEST(Decode, TypesOfPluginsAreNamedBeforeAnyWork) {
  const testing::TempDir folder;
  const ArtifactReader artifact = every_kind("folded");
  for (const auto& act :
       {std::function<void()>([&] { decode_tensor(artifact, 0); }), std::function<void()>([&] {
          decode_to_file(artifact, folder / "x.safetensors", false);
        })}) {
    try {
      act();
      FAIL() << "decoded without the layer type";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("folded"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Decode, OnlyKnownTypesOfKnownRevisionsArePlaced) {
  ArtifactTensor tensor{.kind = TensorKind::kGenerated};
  EXPECT_TRUE(is_placed({}));
  for (const char* type : {"linear", "conv", "attention", "recurrent", "embedding"}) {
    tensor.spec = spec_of(type);
    tensor.shape = tensor.spec.shape;
    EXPECT_TRUE(is_placed(tensor)) << type;
    tensor.spec.type_revision = 99;
    EXPECT_FALSE(is_placed(tensor)) << type;
  }
  tensor.spec = spec_of("linear");
  tensor.shape = {40, 30};
  EXPECT_FALSE(is_placed(tensor)) << "built from something else";
  tensor.spec = spec_of("symmetric");
  tensor.shape = tensor.spec.shape;
  EXPECT_FALSE(is_placed(tensor));
}

}  // namespace
}  // namespace gbcompress
