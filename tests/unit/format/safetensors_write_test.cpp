#include <algorithm>
#include <deque>
#include <random>

#include "format/safetensors/safetensors.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::get_file;
using testing::TempDir;

/// Tensors that own their bytes.
struct Owned {
  std::deque<testing::Bytes> bytes;
  std::vector<TensorEntry> entries;

  void add(std::string name, DType dtype, std::vector<std::int64_t> shape, std::mt19937& random) {
    auto& content =
        bytes.emplace_back(static_cast<std::size_t>(tensor_bytes(dtype, shape, "test")));
    for (auto& b : content) b = static_cast<std::byte>(random());
    entries.push_back({std::move(name), dtype, std::move(shape), content});
  }
};

Owned random_tensors(std::uint32_t seed) {
  std::mt19937 random(seed);
  Owned owned;
  for (int i = 0; i <= static_cast<int>(DType::kF4); ++i) {
    std::vector<std::int64_t> shape(random() % 5);
    for (auto& side : shape) side = static_cast<std::int64_t>(random() % 6);
    // Elements of 4 and 6 bits fill bytes in fours.
    if (i >= static_cast<int>(DType::kF6E2M3)) shape.push_back(4);
    owned.add("t" + std::to_string(random() % 1000) + "." + std::to_string(i),
              static_cast<DType>(i), shape, random);
  }
  std::shuffle(owned.entries.begin(), owned.entries.end(), random);
  return owned;
}

TEST(SafetensorsWrite, RoundTripsOfAllDtypesAndRandomShapes) {
  TempDir dir;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    auto owned = random_tensors(seed);
    const auto size = write_safetensors(dir / "x", owned.entries, {{"seed", "7"}}, true);
    EXPECT_EQ(size, static_cast<std::int64_t>(std::filesystem::file_size(dir / "x")));
    const auto bundle = open_safetensors(dir / "x");
    EXPECT_EQ(bundle.metadata,
              (std::map<std::string, std::string>{{"format", "pt"}, {"seed", "7"}}));
    ASSERT_EQ(bundle.tensors.size(), owned.entries.size());
    for (const TensorEntry& wanted : owned.entries) {
      const TensorEntry* found = bundle.find(wanted.name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->dtype, wanted.dtype);
      EXPECT_EQ(found->shape, wanted.shape);
      EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), wanted.bytes.begin(),
                             wanted.bytes.end()));
    }
    EXPECT_EQ(bundle.find("t"), nullptr);
  }
}

// Printed by safetensors 0.8.0: save_file of these tensors with metadata a, format and zz.
TEST(SafetensorsWrite, OrderAndHeaderOfTheReferenceWriter) {
  const std::string expected =
      R"({"__metadata__":{"a":"x","format":"pt","zz":"b"},)"
      R"("t07":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},)"
      R"("t08":{"dtype":"I64","shape":[2],"data_offsets":[16,32]},)"
      R"("t12":{"dtype":"F64","shape":[2],"data_offsets":[32,48]},)"
      R"("t13":{"dtype":"C64","shape":[2],"data_offsets":[48,64]},)"
      R"("t11":{"dtype":"F32","shape":[2],"data_offsets":[64,72]},)"
      R"("t05":{"dtype":"U32","shape":[2],"data_offsets":[72,80]},)"
      R"("t06":{"dtype":"I32","shape":[2],"data_offsets":[80,88]},)"
      R"("t10":{"dtype":"BF16","shape":[2],"data_offsets":[88,92]},)"
      R"("t09":{"dtype":"F16","shape":[2],"data_offsets":[92,96]},)"
      R"("t03":{"dtype":"U16","shape":[2],"data_offsets":[96,100]},)"
      R"("t04":{"dtype":"I16","shape":[2],"data_offsets":[100,104]},)"
      R"("t16":{"dtype":"F8_E5M2FNUZ","shape":[2],"data_offsets":[104,106]},)"
      R"("t17":{"dtype":"F8_E4M3FNUZ","shape":[2],"data_offsets":[106,108]},)"
      R"("t18":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[108,110]},)"
      R"("t15":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[110,112]},)"
      R"("t14":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[112,114]},)"
      R"("t02":{"dtype":"I8","shape":[2],"data_offsets":[114,116]},)"
      R"("t01":{"dtype":"U8","shape":[2],"data_offsets":[116,118]},)"
      R"("f4":{"dtype":"F4","shape":[4],"data_offsets":[118,120]},)"
      R"("t00":{"dtype":"BOOL","shape":[2],"data_offsets":[120,122]}}     )";
  const char* dtypes[] = {"BOOL",    "U8",          "I8",          "U16",    "I16",
                          "U32",     "I32",         "U64",         "I64",    "F16",
                          "BF16",    "F32",         "F64",         "C64",    "F8_E5M2",
                          "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0"};
  std::mt19937 random(1);
  Owned owned;
  for (int i = 0; i < 19; ++i)
    owned.add((i < 10 ? "t0" : "t") + std::to_string(i), *parse_dtype(dtypes[i]), {2}, random);
  owned.add("f4", DType::kF4, {4}, random);
  TempDir dir;
  write_safetensors(dir / "x", owned.entries, {{"zz", "b"}, {"a", "x"}}, false);
  const std::string file = get_file(dir / "x");
  ASSERT_GT(file.size(), 8 + expected.size());
  EXPECT_EQ(file.substr(8, expected.size()), expected);
  EXPECT_EQ(static_cast<unsigned char>(file[0]) + 256 * static_cast<unsigned char>(file[1]),
            static_cast<int>(expected.size()));
}

TEST(SafetensorsWrite, EscapesNamesAsTheReferenceWriter) {
  std::mt19937 random(1);
  Owned owned;
  owned.add("a\"b\\c/ä世", DType::kU8, {1}, random);
  TempDir dir;
  write_safetensors(dir / "x", owned.entries, {{"k", "\n\t\x01\x7f"}}, false);
  const std::string file = get_file(dir / "x");
  EXPECT_NE(file.find("\"a\\\"b\\\\c/ä世\":{"), std::string::npos);
  EXPECT_NE(file.find("\"k\":\"\\n\\t\\u0001\x7f\""), std::string::npos);
  EXPECT_NE(open_safetensors(dir / "x").find("a\"b\\c/ä世"), nullptr);
}

TEST(SafetensorsWrite, RewritesPublishedFilesByteForByte) {
  const std::filesystem::path models = GBC_SOURCE_DIR "/../shared/data/models";
  if (!std::filesystem::is_directory(models)) GTEST_SKIP() << models << " is absent";
  TempDir dir;
  int files = 0;
  for (const auto& at : std::filesystem::directory_iterator(models)) {
    if (at.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(at.path());
    write_safetensors(dir / "copy", file.tensors(), file.metadata(), true);
    EXPECT_TRUE(get_file(dir / "copy") == get_file(at.path())) << at.path();
    ++files;
  }
  EXPECT_GE(files, 3);
}

TEST(SafetensorsWrite, AsksTheSourceForOneTensorAtATimeInFileOrder) {
  auto owned = random_tensors(3);
  TempDir dir;
  write_safetensors(dir / "whole", owned.entries, {}, false);
  auto without = owned.entries;
  for (auto& tensor : without) tensor.bytes = {};
  testing::Bytes only;
  std::size_t calls = 0;
  write_safetensors(dir / "parts", without, {}, false, [&](std::size_t i) {
    ++calls;
    only.assign(owned.entries[i].bytes.begin(), owned.entries[i].bytes.end());
    return std::span<const std::byte>(only);
  });
  EXPECT_EQ(calls, without.size());
  EXPECT_EQ(get_file(dir / "parts"), get_file(dir / "whole"));
}

TEST(SafetensorsWrite, BadTensorsLeaveNothingBehind) {
  std::mt19937 random(1);
  TempDir dir;
  const auto write = [&](Owned& owned, std::map<std::string, std::string> metadata = {}) {
    return write_safetensors(dir / "x", owned.entries, std::move(metadata), false);
  };
  Owned twice, short_of, control, wide;
  twice.add("a", DType::kF32, {1}, random);
  twice.add("a", DType::kI8, {1}, random);
  GBC_EXPECT_ERROR(write(twice), Errc::kUsage, "two tensors are named a");
  short_of.add("a", DType::kF32, {2}, random);
  short_of.entries[0].shape = {3};
  GBC_EXPECT_ERROR(write(short_of), Errc::kShapeMismatch, "needs 12 bytes, 8 were given");
  control.add("a\n", DType::kF32, {1}, random);
  GBC_EXPECT_ERROR(write(control), Errc::kCorrupt, "control character");
  control.entries[0].name = "__metadata__";
  GBC_EXPECT_ERROR(write(control), Errc::kCorrupt, "reserved");
  control.entries[0].name = "\xff";
  GBC_EXPECT_ERROR(write(control), Errc::kCorrupt, "not UTF-8");
  wide.add("a", DType::kF32, {1}, random);
  wide.entries[0].shape = std::vector<std::int64_t>(9, 1);
  GBC_EXPECT_ERROR(write(wide), Errc::kLimit, "9 dimensions");
  wide.entries[0].shape = {-1};
  GBC_EXPECT_ERROR(write(wide), Errc::kCorrupt, "negative size");
  wide.entries[0].shape = {1};
  GBC_EXPECT_ERROR(write(wide, {{"k", "\xff"}}), Errc::kUsage, "metadata k is not UTF-8");
  EXPECT_EQ(dir.files(), 0u);
  write(wide);
  GBC_EXPECT_ERROR(write(wide), Errc::kExists, "`overwrite`");
  EXPECT_EQ(dir.files(), 1u);
}

}  // namespace
}  // namespace gbcompress
