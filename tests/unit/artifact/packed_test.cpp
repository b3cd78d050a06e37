/// Integers that wait to be encoded.
#include <gtest/gtest.h>

#include "artifact/integers/packed_blocks.h"
#include "gbcompress/artifact.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using codec::lanes::Shape;

std::vector<std::int32_t> unpacked_grid(const IntegerGrid& grid,
                                        const std::vector<PackedBlock>& blocks) {
  std::vector<std::int32_t> integers, room;
  const PackedGrid packed(grid, [&](std::int64_t block, PackedBlock&) {
    return std::span<const std::byte>(blocks[static_cast<std::size_t>(block)]);
  });
  for (std::int64_t block = 0; block < Shape(grid).blocks(); ++block) {
    const auto values = packed.get(block, room);
    integers.insert(integers.end(), values.begin(), values.end());
  }
  return integers;
}

TEST(PackedBlocks, EachBlockIsAsWideAsItsLargestMagnitude) {
  const IntegerGrid grid{3, 1 << 20, 0};
  std::vector<std::int32_t> integers(static_cast<std::size_t>(grid.size()));
  for (std::size_t i = 0; i < integers.size(); ++i)
    integers[i] = static_cast<std::int32_t>(i % 255) - 127;
  integers[(1 << 20) + 5] = -128;
  integers[(2 << 20) + 9] = kMaxMagnitude;
  const std::vector<PackedBlock> blocks = pack_grid(grid, integers);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].size(), 1u + (1 << 20));
  EXPECT_EQ(blocks[1].size(), 1u + (2 << 20));
  EXPECT_EQ(blocks[2].size(), 1u + (4 << 20));
  EXPECT_EQ(unpacked_grid(grid, blocks), integers);
  const std::vector<std::int32_t> beyond = {kMaxMagnitude + 1};
  EXPECT_EQ(code_of([&] { pack_block(beyond); }), Errc::kUsage);
}

TEST(PackedBlocks, AreSplitWhereTheyFitAlone) {
  const std::vector<IntegerGrid> grids = {{1, 4, 0}, {4, 3, 0}};
  const std::vector<std::int32_t> offsets = {0, 4, -8, 300}, integers(12, -3);
  std::vector<PackedBlock> blocks = pack_grid(grids[0], offsets);
  blocks.push_back(pack_block(integers));
  std::vector<std::byte> bytes;
  for (const PackedBlock& block : blocks) bytes.insert(bytes.end(), block.begin(), block.end());
  EXPECT_EQ(split_blocks(bytes, grids), blocks);
  EXPECT_FALSE(split_blocks(std::span(bytes).first(bytes.size() - 1), grids));
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(split_blocks(bytes, grids)) << "a byte too many";
  bytes.pop_back();
  bytes[0] = std::byte{3};
  EXPECT_FALSE(split_blocks(bytes, grids)) << "no width";
}

/// A writer with one matrix of packed integers.
struct PackedWriter {
  ArtifactWriter writer{"", ""};
  CodedValues form;

  explicit PackedWriter(const CodedValues& values) : form(values) {
    form.integers.clear();
    writer.add_coded_section("w", DType::kF32, {values.grid.rows, values.grid.cols}, form, {});
  }
  void update(const CodedValues& values) {
    std::vector<PackedBlock> blocks;
    if (!values.row_steps.empty()) blocks = pack_grid({1, values.grid.rows, 0}, values.row_steps);
    for (PackedBlock& block : pack_grid(values.grid, values.integers))
      blocks.push_back(std::move(block));
    form.step = values.step;
    form.row_steps = values.row_steps;
    writer.update_packed("w", form, blocks);
  }
};

TEST(Writer, PackedIntegersMakeTheSameFile) {
  const testing::TempDir folder;
  CodedValues values{.grid = {1300, 1000, 0}, .step = -50};
  for (int i = 0; i < 1'300'000; ++i) values.integers.push_back(i * 7 % 23 - 11);
  CodedValues wide = values;
  wide.integers[77] = 4000;
  wide.row_steps.assign(1300, 4);
  PackedWriter memory(values), spooled(values);
  spooled.writer.spool_in(folder.path());
  for (const CodedValues& each : {wide, values, wide, values}) {
    ArtifactWriter expected("", "");
    expected.set_profile(CodecProfile::kLanes);
    expected.add_coded("w", DType::kF32, {1300, 1000}, each);
    memory.update(each);
    spooled.update(each);
    EXPECT_EQ(memory.writer.encode(), expected.encode());
    EXPECT_EQ(spooled.writer.encode(), expected.encode());
    EXPECT_EQ(spooled.writer.size(), expected.size());
  }
}

}  // namespace
}  // namespace gbcompress
