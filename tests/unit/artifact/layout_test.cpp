#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace gbcompress {
namespace {

/// A file of the architecture as it is meant to be: parameters coded, buffers as they began.
/// @param noise  steps differ by that much at random
ArtifactWriter coded_file(const std::string& arch, int noise) {
  const RandomStream random(3, "layout test");
  ArtifactWriter writer(arch, "");
  std::uint64_t index = 0;
  const auto layout = arch_layout(arch);
  for (const LayoutEntry& entry : layout.value()) {
    if (entry.buffer) {
      const auto real = static_cast<float>(entry.initial);
      const std::int64_t whole = entry.initial;
      writer.add_constant(entry.name, entry.dtype, entry.shape,
                          entry.dtype == DType::kF32 ? std::as_bytes(std::span(&real, 1))
                                                     : std::as_bytes(std::span(&whole, 1)));
      continue;
    }
    CodedValues values{.grid = default_grid(entry.shape)};
    values.step = -70 + static_cast<int>(random.bits(index++) % (2 * noise + 1)) - noise;
    values.integers.assign(static_cast<std::size_t>(values.grid.size()), 0);
    writer.add_coded(entry.name, entry.dtype, entry.shape, values);
  }
  return writer;
}

TEST(Layout, KnowsNothingElse) {
  for (const char* arch : {"",
                           "mlp",
                           "mlp:",
                           "mlp:5",
                           "mlp:5-",
                           "mlp:-5-4",
                           "mlp:0-4",
                           "mlp:5-x",
                           "mlp:5-4 ",
                           "mlp:1048577-2",
                           "mlp:1048576-1048576",
                           "lenet5:10",
                           "lenet-300-100:1",
                           "resnet20:0",
                           "resnet20:3-4",
                           "resnet20:1048577",
                           "resnet21",
                           "circulant-net",
                           "mlp:99999999999999999999",
                           "RESNET20",
                           "resnet20 "})
    EXPECT_FALSE(arch_layout(arch)) << arch;
  std::string many = "mlp:1";
  for (int n = 0; n < 64; ++n) many += "-1";
  EXPECT_EQ(arch_layout(many)->size(), 128u);
  EXPECT_FALSE(arch_layout(many + "-1"));
  EXPECT_FALSE(arch_layout("mlp:" + std::string(1 << 20, '1')));
}

TEST(Layout, FilesOfKnownArchitecturesHaveSmallHeaders) {
  const auto overhead = [](const std::string& arch) {
    const auto bytes = coded_file(arch, 12).encode();
    const auto reader = ArtifactReader::from_bytes(bytes, "x.gbz");
    reader.verify();
    const auto layout = arch_layout(arch);
    EXPECT_EQ(reader.tensors().size(), layout->size());
    for (std::size_t i = 0; i < layout->size(); ++i) {
      const LayoutEntry& entry = (*layout)[i];
      EXPECT_EQ(reader.tensors()[i].name, entry.name);
      EXPECT_EQ(reader.tensors()[i].shape, entry.shape);
      EXPECT_EQ(reader.tensors()[i].dtype, entry.dtype);
      EXPECT_EQ(reader.tensors()[i].kind,
                entry.buffer ? TensorKind::kConstant : TensorKind::kQuantized);
    }
    RecordProperty(arch, static_cast<int>(reader.header_bytes()));
    return reader.header_bytes();
  };
  EXPECT_LE(overhead("mlp:784-300-100-10"), 40);
  EXPECT_LE(overhead("lenet-300-100"), 36);
  EXPECT_LE(overhead("lenet5"), 32);
  EXPECT_LE(overhead("resnet20"), 150);
}

/// Files of a known architecture may hold other kinds, types and steps; then only names and shapes
/// are left out. With another order or shape they are stored.
TEST(Layout, WhatDiffersIsStored) {
  const auto header = [](const ArtifactWriter& writer) {
    return ArtifactReader::from_bytes(writer.encode(), "x.gbz").header_bytes();
  };
  const std::vector<float> bias = {1, 2, 3};
  CodedValues weight{.grid = {3, 2, 0}, .step = -64};
  weight.integers = {1, 2, 3, 4, 5, 6};
  const auto file = [&](const std::string& arch, DType dtype, bool swapped, bool row_steps,
                        bool dependent = false) {
    ArtifactWriter writer(arch, "");
    CodedValues values = weight;
    values.grid.dependent = dependent;
    if (row_steps) values.row_steps = {1, 2, 3};
    const auto add_bias = [&] {
      writer.add_plain("0.bias", DType::kF32, {3}, std::as_bytes(std::span(bias)));
    };
    if (swapped) add_bias();
    writer.add_coded("0.weight", dtype, {3, 2}, values);
    if (!swapped) add_bias();
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
    reader.verify();
    const std::size_t at = swapped ? 1 : 0;
    EXPECT_EQ(reader.tensors()[at].name, "0.weight");
    EXPECT_EQ(reader.tensors()[at].dtype, dtype);
    EXPECT_EQ(reader.coded(at).integers, values.integers);
    EXPECT_EQ(reader.coded(at).row_steps, values.row_steps);
    EXPECT_EQ(reader.coded(at).grid.dependent, dependent);
    EXPECT_EQ(reader.tensors()[1 - at].kind, TensorKind::kExact);
    return header(writer);
  };
  const auto usual = file("mlp:2-3", DType::kF32, false, false);
  EXPECT_EQ(file("mlp:2-3", DType::kF32, false, true), usual);
  EXPECT_EQ(file("mlp:2-3", DType::kF32, false, false, true), usual);
  EXPECT_EQ(file("mlp:2-3", DType::kF32, false, true, true), usual);
  EXPECT_LE(file("mlp:2-3", DType::kF16, false, false), usual + 10);
  EXPECT_GT(file("mlp:2-3", DType::kF32, true, false), usual + 20);
  EXPECT_GT(file("mlp:2-4", DType::kF32, false, false), usual + 20);
  EXPECT_GT(file("lenet5", DType::kF32, false, false), usual + 15);
}

}  // namespace
}  // namespace gbcompress
