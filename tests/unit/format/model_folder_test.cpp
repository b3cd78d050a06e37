#include "format/model_folder.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/model_folders.h"
#include "pickle_builder.h"
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

TEST(ModelFolder, ReadsAllFilesOfAnIndex) {
  Shards shards;
  shards.put_index(kMap);
  for (const auto& path : {shards.index, shards.dir.path()}) {
    const auto bundle = open_model_folder(path);
    ASSERT_EQ(bundle.tensors.size(), 2u);
    EXPECT_EQ(testing::to_text(bundle.find("a")->bytes), "second");
    EXPECT_EQ(testing::to_text(bundle.find("b")->bytes), "first");
    EXPECT_EQ(bundle.metadata.at("format"), "pt");
  }
}

TEST(ModelFolder, BundlesOutliveTheFilesNames) {
  TensorBundle copy;
  {
    Shards shards;
    copy = open_model_folder(shards.dir.path());
  }
  EXPECT_EQ(testing::to_text(copy.find("a")->bytes), "second");
}

TEST(ModelFolder, WithoutAnIndexTheUsualNameComesFirst) {
  Shards shards;
  EXPECT_EQ(open_model_folder(shards.dir.path()).tensors.size(), 2u);
  put_tensor(shards.dir / "model.safetensors", "c", "only");
  const auto bundle = open_model_folder(shards.dir.path());
  ASSERT_EQ(bundle.tensors.size(), 1u);
  EXPECT_EQ(bundle.tensors[0].name, "c");
}

TEST(ModelFolder, OneTensorInTwoFiles) {
  TempDir dir;
  put_tensor(dir / "x.safetensors", "a", "once");
  put_tensor(dir / "y.safetensors", "b", "another");
  const auto both = open_model_folder(dir.path());
  EXPECT_EQ(both.tensors.size(), 2u);
  EXPECT_EQ(both.notes, std::vector<std::string>{
                            "read as the parts of one model: x.safetensors, y.safetensors"});
  put_tensor(dir / "y.safetensors", "a", "again");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kUsage,
                   "holds tensor a in several files, which are copies or variants: x.safetensors, "
                   "y.safetensors");
  put_tensor(dir / "m-00001-of-00002.safetensors", "a", "first");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kNotFound, "1 of 2 parts of m:");
  put_tensor(dir / "m-00002-of-00002.safetensors", "a", "first");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kCorrupt, "holds tensor a twice");
}

TEST(ModelFolder, CopiesBesideNumberedPartsStayBehind) {
  Shards shards;
  put_tensor(shards.dir / "consolidated.safetensors", "native", "again");
  for (const bool index : {false, true}) {
    if (index) shards.put_index(kMap);
    const auto bundle = open_model_folder(shards.dir.path());
    EXPECT_EQ(bundle.tensors.size(), 2u);
    ASSERT_EQ(bundle.notes.size(), 1u);
    EXPECT_NE(bundle.notes[0].find("left behind as other copies or variants: "
                                   "consolidated.safetensors"),
              std::string::npos)
        << bundle.notes[0];
    EXPECT_EQ(weights_name(shards.dir.path()), "m");
  }
}

TEST(ModelFolder, VariantsStayBehindOrAreNamed) {
  TempDir dir;
  put_tensor(dir / "unet.fp16.safetensors", "a", "half");
  EXPECT_EQ(weights_name(dir.path()), "unet.fp16");
  EXPECT_EQ(testing::to_text(open_model_folder(dir.path()).tensors[0].bytes), "half");
  put_tensor(dir / "unet.ema.safetensors", "a", "ema");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kUsage, "copies or variants");
  put_tensor(dir / "unet.safetensors", "a", "plain");
  EXPECT_EQ(testing::to_text(open_model_folder(dir.path()).tensors[0].bytes), "plain");
  put_tensor(dir / "unet.fp16-00001-of-00002.safetensors", "a", "1");
  put_tensor(dir / "unet-00002-of-00002.fp16.safetensors", "b", "2");
  put_file(dir / "unet.safetensors.index.fp16.json", "{}");
  const auto bundle = open_model_folder(dir.path());
  EXPECT_EQ(testing::to_text(bundle.tensors[0].bytes), "plain");
  for (const char* name : {"unet-00002-of-00002.fp16.safetensors", "unet.ema.safetensors",
                           "unet.safetensors.index.fp16.json"})
    EXPECT_NE(bundle.notes[0].find(name), std::string::npos) << name << bundle.notes[0];
  EXPECT_TRUE(bundle.carried.empty());
  EXPECT_EQ(weights_name(dir.path()), "unet");
}

TEST(ModelFolder, NamesOfWeights) {
  TempDir dir;
  EXPECT_EQ(weights_name(dir.path()), "model");
  put_file(dir / "adapter_model.gbz", "");
  EXPECT_EQ(weights_name(dir.path()), "adapter_model");
  put_file(dir / "pytorch_model.bin", "");
  EXPECT_EQ(weights_name(dir.path()), "model");
  put_tensor(dir / "a.safetensors", "a", "a");
  EXPECT_EQ(weights_name(dir.path()), "a");
  put_tensor(dir / "b.safetensors", "b", "b");
  EXPECT_EQ(weights_name(dir.path()), "model");
}

TEST(ModelFolder, ComponentsLieInSubfolders) {
  namespace fs = std::filesystem;
  TempDir dir;
  for (const char* name :
       {"unet", "vae/fp32", "runs/x", "checkpoint-5", "scheduler", ".git", "named.safetensors"})
    fs::create_directories(dir / name);
  for (const char* name : {"unet", "vae/fp32", "runs/x", "checkpoint-5", ".git"})
    put_tensor(dir / name / "model.safetensors", "w", "weight");
  put_file(dir / "scheduler/scheduler_config.json", "{}");
  put_file(dir / "unet/config.json", "{}");
  fs::create_directory_symlink("..", dir / "vae/up");
  fs::create_directory_symlink("unet", dir / "linked");
  const std::vector<fs::path> components{"unet", "vae/fp32"};
  EXPECT_EQ(component_folders(dir.path()), components);
  GBC_EXPECT_ERROR(open_tensors(dir.path()), Errc::kNotFound,
                   "holds no weights itself, its subfolders do: unet, vae/fp32; name one of them");
  TensorBundle bundle;
  find_carried(dir.path(), bundle);
  EXPECT_EQ(bundle.carried, std::vector<fs::path>{"scheduler/scheduler_config.json"});
  EXPECT_NE(bundle.notes.at(0).find("linked/ (a link to a folder)"), std::string::npos);
  EXPECT_TRUE(component_folders(dir / "unet").empty());
  EXPECT_TRUE(component_folders(dir / "unet/config.json").empty());
  put_tensor(dir / "model.safetensors", "w", "weight");
  EXPECT_TRUE(component_folders(dir.path()).empty());
}

TEST(ModelFolder, NothingToRead) {
  TempDir dir;
  put_file(dir / "notes.txt", "");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kNotFound,
                   "holds no .safetensors file, no pytorch_model.bin");
  GBC_EXPECT_ERROR(open_tensors(dir / "none"), Errc::kNotFound, "does not exist");
  GBC_EXPECT_ERROR(open_model_folder(dir / "none.safetensors.index.json"), Errc::kNotFound,
                   "does not exist");
}

TEST(ModelFolder, TwoIndices) {
  Shards shards;
  shards.put_index(kMap);
  put_file(shards.dir / "n.safetensors.index.json", "{}");
  GBC_EXPECT_ERROR(open_model_folder(shards.dir.path()), Errc::kUsage,
                   "several models, or several copies of one: m.safetensors.index.json, "
                   "n.safetensors.index.json");
}

TEST(ModelFolder, AnIndexMayNotLeaveItsFolder) {
  for (const char* name :
       {"../m.safetensors", "/etc/passwd", "x/m.safetensors", "..", "a\\\\m.safetensors", "",
        "m.bin", "a\\u0000.safetensors", "a\\u001b.safetensors"}) {
    Shards shards;
    shards.put_index(std::string("{\"a\":\"") + name + "\"}");
    GBC_EXPECT_ERROR(open_model_folder(shards.index), Errc::kCorrupt, "a plain name");
  }
}

TEST(ModelFolder, AnIndexThatDisagreesWithItsFiles) {
  const auto refuse = [](const std::string& map, Errc code, const std::string& words) {
    Shards shards;
    shards.put_index(map);
    GBC_EXPECT_ERROR(open_model_folder(shards.index), code, words);
  };
  refuse(R"({"a":"m-00001-of-00002.safetensors"})", Errc::kCorrupt, "does not list tensor b");
  refuse(R"({"b":"m-00001-of-00002.safetensors","c":"m-00001-of-00002.safetensors"})",
         Errc::kCorrupt, "lists tensor c");
  refuse(R"({"a":"m-9.safetensors"})", Errc::kNotFound,
         "names 1 files, 1 does not exist beside it: m-9.safetensors");
  refuse(R"({"a":"m-00002-of-00002.safetensors","a":"x"})", Errc::kCorrupt, "key a twice");
  refuse(R"(["a"])", Errc::kCorrupt, "weight_map");
  refuse(R"({"a":7})", Errc::kCorrupt, "weight_map");
  refuse(R"({"a":{"b":"c"}})", Errc::kCorrupt, "weight_map");
  refuse(R"("a")", Errc::kCorrupt, "weight_map");
  refuse(R"({"a\u0007":"m-00001-of-00002.safetensors"})", Errc::kCorrupt, "control character");
}

TEST(ModelFolder, AnIndexThatIsNoIndex) {
  const auto refuse = [](const std::string& text, Errc code, const std::string& words) {
    TempDir dir;
    put_file(dir / "x.safetensors.index.json", text);
    GBC_EXPECT_ERROR(open_model_folder(dir / "x.safetensors.index.json"), code, words);
  };
  refuse("", Errc::kTruncated, "is empty");
  refuse("{}", Errc::kCorrupt, "no weight_map");
  refuse("[]", Errc::kCorrupt, "not a JSON object");
  refuse("{\"weight_map\":", Errc::kCorrupt, "not JSON");
  refuse("{\"metadata\":" + std::string(100'000, '['), Errc::kLimit, "nested more than 16 deep");
}

/// A shard as torch.save writes it.
void put_pickled(const std::filesystem::path& path, const std::string& name) {
  namespace p = testing::pickle;
  put_file(path,
           p::old_saved(p::dict({p::text(name), p::tensor("Byte", "0", 2, 0, {2}, {1})}), {"ab"}));
}

TEST(ModelFolder, PickledWeightsAreReadWhereThereAreNoOthers) {
  TempDir dir;
  put_pickled(dir / "pytorch_model.bin", "module.w");
  const auto single = open_model_folder(dir.path());
  EXPECT_EQ(single.tensors[0].name, "w");
  EXPECT_EQ(single.file_bytes,
            static_cast<std::int64_t>(testing::get_file(dir / "pytorch_model.bin").size()));
  put_pickled(dir / "pytorch_model-00001-of-00002.bin", "module.b");
  put_pickled(dir / "pytorch_model-00002-of-00002.bin", "module.a");
  put_file(dir / "pytorch_model.bin.index.json",
           R"({"weight_map":{"module.a":"pytorch_model-00002-of-00002.bin",
               "module.b":"pytorch_model-00001-of-00002.bin"}})");
  for (const auto& path : {dir.path(), dir / "pytorch_model.bin.index.json"}) {
    const auto bundle = open_tensors(path);
    ASSERT_EQ(bundle.tensors.size(), 2u);
    EXPECT_EQ(bundle.tensors[0].name, "module.a") << "as the index has it";
    EXPECT_EQ(testing::to_text(bundle.tensors[0].bytes), "ab");
  }
  put_tensor(dir / "model.safetensors", "c", "first");
  EXPECT_EQ(open_model_folder(dir.path()).tensors[0].name, "c");
}

TEST(ModelFolder, PickledShardsThatAreMissingOrElsewhere) {
  TempDir dir;
  const auto index = dir / "pytorch_model.bin.index.json";
  put_pickled(dir / "1.bin", "a");
  put_file(index, R"({"weight_map":{"a":"1.bin","b":"2.bin","c":"3.bin"}})");
  GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kNotFound,
                   "names 3 files, 2 do not exist beside it: 2.bin, 3.bin");
  for (const char* name : {"../1.bin", "/etc/1.bin", "1.safetensors"}) {
    put_file(index, std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    GBC_EXPECT_ERROR(open_model_folder(dir.path()), Errc::kCorrupt,
                     "a plain name ending in .bin was expected");
  }
}

}  // namespace
}  // namespace gbcompress
