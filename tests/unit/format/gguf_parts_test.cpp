// Tensors in pieces, and models in parts.
#include "format/gguf/open.h"
#include "format/gguf/parts.h"
#include "format/gguf/pieces.h"
#include "support/files.h"
#include "unit/format/bundle_files.h"
#include "unit/format/gguf_builder.h"

namespace gbcompress {
namespace {

namespace b = testing::gguf;
using testing::files_of;
using testing::put_file;
using testing::TempDir;

constexpr std::uint32_t kPartF32 = 0, kPartF16 = 1, kPartQ8_0 = 8, kPartQ6_K = 14, kPartNew = 777;

gguf::GgufTensor tensor_of(std::uint32_t type, std::vector<std::int64_t> shape,
                           std::uint64_t size) {
  return {"w", type, std::move(shape), 96, size};
}

/// Pieces follow each other and end where the tensor does.
void expect_whole(const gguf::GgufTensor& tensor, const std::vector<gguf::Piece>& pieces) {
  std::uint64_t at = tensor.offset;
  for (const gguf::Piece& piece : pieces) {
    EXPECT_EQ(piece.offset, at) << piece.name;
    EXPECT_EQ(piece.shape.size(), tensor.shape.size()) << piece.name;
    EXPECT_GT(piece.size, 0U);
    at += piece.size;
  }
  EXPECT_EQ(at, tensor.offset + tensor.size);
}

TEST(GgufPieces, RowsAreCutIntoPiecesOfAboutOneSize) {
  const auto tensor = tensor_of(kPartQ8_0, {10, 64}, 10 * 68);
  const auto pieces = gguf::pieces_of(tensor, 4 * 64 + 1);
  expect_whole(tensor, pieces);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].name, "w[0:4]");
  EXPECT_EQ(pieces[1].name, "w[4:8]");
  EXPECT_EQ(pieces[2].name, "w[8:10]");
  EXPECT_EQ(pieces[2].shape, (std::vector<std::int64_t>{2, 64}));
  EXPECT_EQ(pieces[2].size, 2U * 68);
}

TEST(GgufPieces, SlicesThatFitAreNotCut) {
  // Three matrices of 4 x 256 each.
  const auto tensor = tensor_of(kPartQ6_K, {3, 4, 256}, 12 * 210);
  const auto matrices = gguf::pieces_of(tensor, 4 * 256);
  expect_whole(tensor, matrices);
  ASSERT_EQ(matrices.size(), 3U);
  EXPECT_EQ(matrices[1].name, "w[1:2]");
  EXPECT_EQ(matrices[1].shape, (std::vector<std::int64_t>{1, 4, 256}));
  const auto rows = gguf::pieces_of(tensor, 2 * 256);
  expect_whole(tensor, rows);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[3].name, "w[1,2:4]");
  EXPECT_EQ(rows[3].shape, (std::vector<std::int64_t>{1, 2, 256}));
}

TEST(GgufPieces, RowsThatDoNotFitAreCutBetweenBlocks) {
  const auto tensor = tensor_of(kPartQ8_0, {2, 160}, 2 * 170);
  const auto pieces = gguf::pieces_of(tensor, 100);
  expect_whole(tensor, pieces);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[0].name, "w[0,0:96]");
  EXPECT_EQ(pieces[3].name, "w[1,96:160]");
  EXPECT_EQ(pieces[3].size, 2U * 34);
  const auto unknown = tensor_of(kPartNew, {1LL << 40}, 1000);
  const auto bytes = gguf::pieces_of(unknown, 300);
  expect_whole(unknown, bytes);
  EXPECT_EQ(bytes.size(), 4U);
}

TEST(GgufPieces, WhatHasAnElementTypeOrFitsStaysWhole) {
  EXPECT_EQ(gguf::pieces_of(tensor_of(kPartF16, {8, 64}, 1024), 64).size(), 1U);
  const auto whole = gguf::pieces_of(tensor_of(kPartQ8_0, {8, 64}, 8 * 68), 8 * 64);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].name, "w");
  auto named = tensor_of(kPartQ8_0, {8, 64}, 8 * 68);
  named.name = std::string(500, 'n');
  EXPECT_EQ(gguf::pieces_of(named, 64).size(), 1U);
}

TEST(GgufParts, NamesTellPartsApart) {
  const auto name = gguf::part_name("folder/m-1-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "m-1");
  EXPECT_EQ(name->number, 2U);
  EXPECT_EQ(name->count, 13U);
  EXPECT_EQ(name->file(11), "m-1-00011-of-00013.gguf");
  for (const char* other : {"m.gguf", "-00001-of-00002.gguf", "m-00000-of-00002.gguf",
                            "m-00003-of-00002.gguf", "m-00001-of-00002.bin", "m-0001-of-00002.gguf",
                            "m-0000x-of-00002.gguf", "m-00001-in-00002.gguf"})
    EXPECT_FALSE(gguf::part_name(other)) << other;
}

std::string part(int number, int count, const std::vector<b::Tensor>& tensors) {
  return b::file({b::key("split.no", 2, testing::le(static_cast<std::uint16_t>(number))),
                  b::key("split.count", 2, testing::le(static_cast<std::uint16_t>(count)))},
                 tensors);
}

b::Tensor some(const char* name) { return {name, kPartF32, {4}, std::string(16, name[0])}; }

TEST(GgufParts, TheFirstPartStandsForAll) {
  const TempDir dir;
  const std::string first = part(0, 3, {}), second = part(1, 3, {some("a"), some("c")}),
                    third = part(2, 3, {some("b")});
  put_file(dir / "m-00001-of-00003.gguf", first);
  put_file(dir / "m-00002-of-00003.gguf", second);
  put_file(dir / "m-00003-of-00003.gguf", third);
  const TensorBundle all = gguf::open_model(dir / "m-00001-of-00003.gguf");
  EXPECT_EQ(files_of(all), (std::vector<std::string>{first, second, third}));
  EXPECT_EQ(all.tensors.size(), 4U);
  EXPECT_EQ(all.files.size(), 3U);
  EXPECT_EQ(gguf::open_types(dir / "m-00001-of-00003.gguf").size(), 3U);
  const TensorBundle one = gguf::open_model(dir / "m-00002-of-00003.gguf");
  EXPECT_EQ(files_of(one), std::vector<std::string>{second});
  ASSERT_FALSE(one.notes.empty());
  EXPECT_NE(one.notes.back().find("part 2 of 3 of a model"), std::string::npos);
  EXPECT_EQ(gguf::open_parts(dir / "m-00003-of-00003.gguf").size(), 1U);
}

TEST(GgufParts, DamagedSetsAreNamed) {
  const TempDir dir;
  const auto first = dir / "m-00001-of-00002.gguf";
  put_file(first, part(0, 2, {some("a")}));
  const TensorBundle alone = gguf::open_model(first);
  ASSERT_FALSE(alone.notes.empty());
  EXPECT_NE(alone.notes.back().find("m-00002-of-00002.gguf is not beside it"), std::string::npos);
  const auto second = dir / "m-00002-of-00002.gguf";
  put_file(second, part(0, 2, {some("b")}));
  GBC_EXPECT_ERROR(gguf::open_model(first), Errc::kCorrupt,
                   "part 2 of 2 by its name and part 1 of 2 by its metadata");
  put_file(second, part(1, 3, {some("b")}));
  GBC_EXPECT_ERROR(gguf::open_model(first), Errc::kCorrupt, "part 2 of 3 by its metadata");
  put_file(second, b::file({}, {some("b")}));
  GBC_EXPECT_ERROR(gguf::open_model(first), Errc::kCorrupt, "no part of a model by its metadata");
  put_file(second, part(1, 2, {some("a")}));
  GBC_EXPECT_ERROR(gguf::open_model(first), Errc::kCorrupt, "holds tensor a twice");
  put_file(first, part(0, 5, {some("a")}));
  GBC_EXPECT_ERROR(gguf::open_model(first), Errc::kCorrupt, "part 1 of 5 by its metadata");
}

TEST(GgufParts, WhatIsNoModelIsExact) {
  const auto exact = [](const char* type) {
    const auto bytes =
        testing::to_bytes(b::file({b::key("general.type", 8, b::text(type))}, {some("a")}));
    return gguf::read_model(bytes, "x").tensors.front().exact;
  };
  EXPECT_TRUE(exact("imatrix"));
  EXPECT_TRUE(exact("adapter"));
  EXPECT_FALSE(exact("model"));
  EXPECT_FALSE(exact("mmproj"));
}

}  // namespace
}  // namespace gbcompress
