#include "format/safetensors.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::put_file;
using testing::TempDir;

void put_tensor(const std::filesystem::path& path, const std::string& name,
                const std::string& text) {
  const auto bytes = testing::to_bytes(text);
  const std::vector<TensorEntry> tensors{
      {name, DType::kU8, {static_cast<std::int64_t>(text.size())}, bytes}};
  write_safetensors(path, tensors, {}, true);
}

/// A folder with tensors a and b in two files.
struct Shards {
  Shards() {
    put_tensor(dir / "m-00001-of-00002.safetensors", "b", "first");
    put_tensor(dir / "m-00002-of-00002.safetensors", "a", "second");
  }
  void put_index(const std::string& weight_map) {
    put_file(index, "{\"metadata\":{\"total_size\":11,\"more\":[1,{}]},\"weight_map\":" +
                        weight_map + "}\n");
  }
  TempDir dir;
  std::filesystem::path index = dir / "m.safetensors.index.json";
};

constexpr const char* kMap =
    R"({"a":"m-00002-of-00002.safetensors","b":"m-00001-of-00002.safetensors"})";

TEST(SafetensorsFolder, ReadsAllFilesOfAnIndex) {
  Shards shards;
  shards.put_index(kMap);
  for (const auto& path : {shards.index, shards.dir.path()}) {
    const auto bundle = open_safetensors(path);
    ASSERT_EQ(bundle.tensors.size(), 2u);
    EXPECT_EQ(testing::to_text(bundle.find("a")->bytes), "second");
    EXPECT_EQ(testing::to_text(bundle.find("b")->bytes), "first");
    EXPECT_EQ(bundle.metadata.at("format"), "pt");
  }
}

TEST(SafetensorsFolder, BundlesOutliveTheFilesNames) {
  TensorBundle copy;
  {
    Shards shards;
    copy = open_safetensors(shards.dir.path());
  }
  EXPECT_EQ(testing::to_text(copy.find("a")->bytes), "second");
}

TEST(SafetensorsFolder, WithoutAnIndexTheUsualNameComesFirst) {
  Shards shards;
  EXPECT_EQ(open_safetensors(shards.dir.path()).tensors.size(), 2u);
  put_tensor(shards.dir / "model.safetensors", "c", "only");
  const auto bundle = open_safetensors(shards.dir.path());
  ASSERT_EQ(bundle.tensors.size(), 1u);
  EXPECT_EQ(bundle.tensors[0].name, "c");
}

TEST(SafetensorsFolder, OneTensorInTwoFiles) {
  Shards shards;
  put_tensor(shards.dir / "m3.safetensors", "a", "again");
  GBC_EXPECT_ERROR(open_safetensors(shards.dir.path()), Errc::kCorrupt, "tensor a is in two files");
}

TEST(SafetensorsFolder, NothingToRead) {
  TempDir dir;
  put_file(dir / "notes.txt", "");
  GBC_EXPECT_ERROR(open_safetensors(dir.path()), Errc::kNotFound, "no .safetensors file");
  GBC_EXPECT_ERROR(open_safetensors(dir / "none"), Errc::kNotFound, "does not exist");
  GBC_EXPECT_ERROR(open_safetensors(dir / "none.safetensors.index.json"), Errc::kNotFound,
                   "does not exist");
}

TEST(SafetensorsFolder, TwoIndices) {
  Shards shards;
  shards.put_index(kMap);
  put_file(shards.dir / "n.safetensors.index.json", "{}");
  GBC_EXPECT_ERROR(open_safetensors(shards.dir.path()), Errc::kUsage, "several index files");
}

TEST(SafetensorsFolder, AnIndexMayNotLeaveItsFolder) {
  for (const char* name :
       {"../m.safetensors", "/etc/passwd", "x/m.safetensors", "..", "a\\\\m.safetensors", "",
        "m.bin", "a\\u0000.safetensors", "a\\u001b.safetensors"}) {
    Shards shards;
    shards.put_index(std::string("{\"a\":\"") + name + "\"}");
    GBC_EXPECT_ERROR(open_safetensors(shards.index), Errc::kCorrupt, "a plain name");
  }
}

TEST(SafetensorsFolder, AnIndexThatDisagreesWithItsFiles) {
  const auto refuse = [](const std::string& map, Errc code, const std::string& words) {
    Shards shards;
    shards.put_index(map);
    GBC_EXPECT_ERROR(open_safetensors(shards.index), code, words);
  };
  refuse(R"({"a":"m-00001-of-00002.safetensors"})", Errc::kCorrupt, "does not list tensor b");
  refuse(R"({"b":"m-00001-of-00002.safetensors","c":"m-00001-of-00002.safetensors"})",
         Errc::kCorrupt, "lists tensor c");
  refuse(R"({"a":"m-9.safetensors"})", Errc::kNotFound, "does not exist");
  refuse(R"({"a":"m-00002-of-00002.safetensors","a":"x"})", Errc::kCorrupt, "key a twice");
  refuse(R"(["a"])", Errc::kCorrupt, "weight_map");
  refuse(R"({"a":7})", Errc::kCorrupt, "weight_map");
  refuse(R"({"a":{"b":"c"}})", Errc::kCorrupt, "weight_map");
  refuse(R"("a")", Errc::kCorrupt, "weight_map");
  refuse(R"({"a\u0007":"m-00001-of-00002.safetensors"})", Errc::kCorrupt, "control character");
}

TEST(SafetensorsFolder, AnIndexThatIsNoIndex) {
  const auto refuse = [](const std::string& text, Errc code, const std::string& words) {
    TempDir dir;
    put_file(dir / "x.safetensors.index.json", text);
    GBC_EXPECT_ERROR(open_safetensors(dir / "x.safetensors.index.json"), code, words);
  };
  refuse("", Errc::kTruncated, "is empty");
  refuse("{}", Errc::kCorrupt, "no weight_map");
  refuse("[]", Errc::kCorrupt, "not a JSON object");
  refuse("{\"weight_map\":", Errc::kCorrupt, "not JSON");
  refuse("{\"metadata\":" + std::string(100'000, '['), Errc::kLimit, "nested more than 16 deep");
}

}  // namespace
}  // namespace gbcompress
