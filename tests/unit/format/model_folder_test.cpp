#include "format/model_folder.h"
#include "format/folder/carried_files.h"
#include "format/safetensors/safetensors.h"
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
  Shards shards;
  put_tensor(shards.dir / "m3.safetensors", "a", "again");
  GBC_EXPECT_ERROR(open_model_folder(shards.dir.path()), Errc::kCorrupt, "holds tensor a twice");
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
  GBC_EXPECT_ERROR(open_model_folder(shards.dir.path()), Errc::kUsage, "several index files");
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

struct Carried : ::testing::Test {
  Carried() {
    put_tensor(dir / "model.safetensors", "w", "weight");
    for (const char* name : {"config.json", "tokenizer.json", "vocab.txt", "LICENSE", "README.md",
                             "spiece.model", "generation_config.json"})
      put_file(dir / name, name);
    for (const char* name : {"tf_model.h5", "pytorch_model.bin", "model.onnx", ".gitattributes",
                             "optimizer.pt", "training_args.bin"})
      put_file(dir / name, name);
    std::filesystem::create_directory(dir / "folder.json");
  }
  static std::string names(const TensorBundle& bundle) {
    std::string text;
    for (const auto& file : bundle.carried) text += file.string() + " ";
    return text;
  }
  TempDir dir, out;
};

TEST_F(Carried, ConfigurationAndTokenizerGoAlong) {
  const auto bundle = open_tensors(dir.path());
  EXPECT_EQ(names(bundle),
            "LICENSE README.md config.json generation_config.json spiece.model tokenizer.json "
            "vocab.txt ");
  EXPECT_EQ(bundle.notes,
            std::vector<std::string>{"left out of the folder: folder.json (not an "
                                     "ordinary file), optimizer.pt, training_args.bin"});
  EXPECT_TRUE(open_tensors(dir / "model.safetensors").carried.empty());
}

TEST_F(Carried, SubfoldersGoAlongUnlessTheyAreModels) {
  namespace fs = std::filesystem;
  put_file(dir / "modules.json",
           R"([{"idx":0,"path":""},{"idx":1,"path":"1_Pooling"},{"idx":2,"path":"2_Dense"},)"
           R"({"idx":3,"path":"../escape"},{"idx":4,"path":"/etc"}])");
  for (const char* name : {"1_Pooling/config.json", "2_Dense/config.json", "templates/a/tool.jinja",
                           "onnx/config.json", ".cache/config.json", "checkpoint-5/config.json",
                           "a/b/c/d/e/config.json", "packed/config.json"}) {
    fs::create_directories((dir / name).parent_path());
    put_file(dir / name, name);
  }
  put_file(dir / "onnx/model.onnx", "weights");
  put_file(dir / "packed/model.gbz", "weights");
  put_tensor(dir / "2_Dense/model.safetensors", "w", "dense");
  fs::create_directory(dir / "other");
  put_file(dir / "other/config.json", "another model's");
  put_tensor(dir / "other/model.safetensors", "w", "other");
  put_file(out / "secret.json", "secret");
  fs::create_directory_symlink(out.path(), dir / "linked");
  fs::create_symlink(out / "secret.json", dir / "1_Pooling/linked.json");

  const auto bundle = open_tensors(dir.path());
  EXPECT_EQ(names(bundle),
            "1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors LICENSE README.md "
            "config.json generation_config.json modules.json onnx/config.json spiece.model "
            "templates/a/tool.jinja tokenizer.json vocab.txt ");
  ASSERT_EQ(bundle.notes.size(), 1U);
  for (const char* left :
       {"1_Pooling/linked.json (not an ordinary file)", "checkpoint-5/",
        "other/ (a model of its own)", "packed/ (a model of its own)", "a/b/c/d/e/ (too deep)"})
    EXPECT_NE(bundle.notes[0].find(left), std::string::npos) << left << " in " << bundle.notes[0];

  TempDir to, elsewhere, linked;
  { const CarriedCopies forgotten(dir.path(), bundle.carried, to.path(), false); }
  EXPECT_TRUE(fs::is_empty(to.path())) << "without commit()";
  CarriedCopies(dir.path(), bundle.carried, to.path(), false).commit();
  EXPECT_EQ(testing::get_file(to / "1_Pooling/config.json"), "1_Pooling/config.json");
  EXPECT_EQ(testing::get_file(to / "2_Dense/model.safetensors"),
            testing::get_file(dir / "2_Dense/model.safetensors"));
  CarriedCopies(dir.path(), bundle.carried, to.path(), true).commit();
  // Neither through a link in a subfolder's place nor out of the folder.
  fs::create_directory_symlink(elsewhere.path(), linked / "2_Dense");
  GBC_EXPECT_ERROR(CarriedCopies(dir.path(), bundle.carried, linked.path(), true), Errc::kIo,
                   "2_Dense is a symbolic link");
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
  EXPECT_FALSE(fs::exists(linked / "1_Pooling")) << "what was copied before it is gone";
  for (const char* path : {"../secret.json", "a/../../secret.json", "/etc/hostname"})
    GBC_EXPECT_ERROR(CarriedCopies(dir.path(), std::vector<fs::path>{path}, to.path(), true),
                     Errc::kUsage, "not a file within a folder");
}

TEST_F(Carried, CachesKeepSubfoldersAsLinksToo) {
  namespace fs = std::filesystem;
  const fs::path snapshot = out / "snapshots/main";
  fs::create_directories(snapshot / "1_Pooling");
  fs::create_directories(out / "blobs");
  const std::string digest(40, 'a');
  put_file(out / ("blobs/" + digest), "{}");
  put_tensor(snapshot / "model.safetensors", "w", "weight");
  fs::create_symlink("../../../blobs/" + digest, snapshot / "1_Pooling/config.json");
  fs::create_symlink("../../blobs/" + digest, snapshot / "1_Pooling/wrong.json");
  const auto bundle = open_tensors(snapshot);
  EXPECT_EQ(names(bundle), "1_Pooling/config.json ");
  CarriedCopies(snapshot, bundle.carried, dir.path(), false).commit();
  EXPECT_EQ(testing::get_file(dir / "1_Pooling/config.json"), "{}");
}

TEST_F(Carried, AreBoundedInNumber) {
  for (int i = 0; i < 1100; ++i) put_file(dir / ("a" + std::to_string(i) + ".txt"), "x");
  const auto bundle = open_tensors(dir.path());
  EXPECT_EQ(bundle.carried.size(), 1000U);
  EXPECT_NE(bundle.notes[0].find("beyond the 1,000 files"), std::string::npos);
}

TEST_F(Carried, StandInsAreNamed) {
  put_file(dir / "tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  put_file(dir / "vocab.txt", "<!DOCTYPE html>");
  put_file(dir / "README.md", "<head>, or what I had in mind");
  put_file(dir / "generation_config.json", "");
  const std::vector<std::string> notes = open_tensors(dir.path()).notes;
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_NE(notes[0].find("tokenizer.json is a Git LFS pointer"), std::string::npos);
  EXPECT_NE(notes[1].find("vocab.txt is a web page"), std::string::npos);
}

TEST_F(Carried, LinksAreFollowedOnlyWithinHuggingFacesCache) {
  namespace fs = std::filesystem;
  put_file(out / "secret.json", "secret");
  fs::create_symlink(out / "secret.json", dir / "a.json");
  fs::create_symlink("../../blobs/../secret", dir / "b.json");
  const fs::path snapshot = out / "snapshots/main";
  fs::create_directories(snapshot);
  fs::create_directories(out / "blobs");
  const std::string digest(40, 'a');
  put_file(out / ("blobs/" + digest), "{}");
  put_tensor(snapshot / "model.safetensors", "w", "weight");
  fs::create_symlink("../../blobs/" + digest, snapshot / "config.json");
  EXPECT_EQ(names(open_tensors(dir.path())).find("a.json"), std::string::npos);
  EXPECT_EQ(names(open_tensors(dir.path())).find("b.json"), std::string::npos);
  const auto cached = open_tensors(snapshot);
  EXPECT_EQ(names(cached), "config.json ");
  TempDir to;
  CarriedCopies(snapshot, cached.carried, to.path(), false).commit();
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(to / "config.json")));
  EXPECT_EQ(testing::get_file(to / "config.json"), "{}");
}

TEST_F(Carried, AreCopiedWholeAndNeverThroughLinks) {
  namespace fs = std::filesystem;
  const auto bundle = open_tensors(dir.path());
  { const CarriedCopies forgotten(dir.path(), bundle.carried, out.path(), false); }
  EXPECT_EQ(out.files(), 0U) << "without commit()";
  EXPECT_EQ(CarriedCopies(dir.path(), bundle.carried, out.path(), false).commit(),
            bundle.carried.size());
  EXPECT_EQ(out.files(), bundle.carried.size()) << "and no temporary file";
  EXPECT_EQ(testing::get_file(out / "config.json"), "config.json");
  GBC_EXPECT_ERROR(CarriedCopies(dir.path(), bundle.carried, out.path(), false), Errc::kExists,
                   "exists");
  put_file(out / "config.json", "old");
  CarriedCopies(dir.path(), bundle.carried, out.path(), true).commit();
  EXPECT_EQ(testing::get_file(out / "config.json"), "config.json");
  TempDir elsewhere;
  put_file(elsewhere / "target", "untouched");
  fs::remove(out / "config.json");
  fs::create_symlink(elsewhere / "target", out / "config.json");
  GBC_EXPECT_ERROR(CarriedCopies(dir.path(), bundle.carried, out.path(), true), Errc::kIo,
                   "symbolic link");
  EXPECT_EQ(testing::get_file(elsewhere / "target"), "untouched");
  CarriedCopies(dir.path(), bundle.carried, dir.path(), false).commit();
  EXPECT_EQ(testing::get_file(dir / "config.json"), "config.json") << "a folder onto itself";
  GBC_EXPECT_ERROR(CarriedCopies(dir.path(), bundle.carried, out / "none", false), Errc::kIo,
                   "does not exist");
}

}  // namespace
}  // namespace gbcompress
