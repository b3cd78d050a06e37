#include "format/folder/carried_files.h"

#include "format/model_folder.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/model_folders.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::put_file;
using testing::TempDir;

void put_weights(const std::filesystem::path& path, const std::string& name,
                 const std::string& text) {
  const auto bytes = testing::to_bytes(text);
  const std::vector<TensorEntry> tensors{
      {name, DType::kU8, {static_cast<std::int64_t>(text.size())}, bytes}};
  write_safetensors(path, tensors, {}, true);
}

struct Carried : ::testing::Test {
  Carried() {
    put_weights(dir / "model.safetensors", "w", "weight");
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
  put_weights(dir / "2_Dense/model.safetensors", "w", "dense");
  fs::create_directory(dir / "other");
  put_file(dir / "other/config.json", "another model's");
  put_weights(dir / "other/model.safetensors", "w", "other");
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
  put_weights(snapshot / "model.safetensors", "w", "weight");
  fs::create_symlink("../../../blobs/" + digest, snapshot / "1_Pooling/config.json");
  fs::create_symlink("../../blobs/" + digest, snapshot / "1_Pooling/wrong.json");
  const auto bundle = open_tensors(snapshot);
  EXPECT_EQ(names(bundle), "1_Pooling/config.json ");
  CarriedCopies(snapshot, bundle.carried, dir.path(), false).commit();
  EXPECT_EQ(testing::get_file(dir / "1_Pooling/config.json"), "{}");
}

TEST_F(Carried, ConfigurationsNameTheArtifactBesideThem) {
  namespace fs = std::filesystem;
  const std::string config = R"({"model_type": "bert"})";
  fs::create_directory(dir / "sub");
  for (const char* name : {"config.json", "sub/config.json", "generation_config.json"})
    put_file(dir / name, config);
  const auto carried = open_tensors(dir.path()).carried;
  CarriedCopies(dir.path(), carried, out.path(), false, "model.gbz").commit();
  const std::string packed = testing::get_file(out / "config.json");
  EXPECT_NE(packed.find("\"transformers_weights\": \"model.gbz ("), std::string::npos) << packed;
  EXPECT_EQ(testing::get_file(out / "sub/config.json"), config);
  EXPECT_EQ(testing::get_file(out / "generation_config.json"), config);
  TempDir back;
  CarriedCopies(out.path(), carried, back.path(), false).commit();
  EXPECT_EQ(testing::get_file(back / "config.json"), config);
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
  put_weights(snapshot / "model.safetensors", "w", "weight");
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
