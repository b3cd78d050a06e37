#include "format/file_kind.h"

#include "format/folder/weight_files.h"
#include "format/model_folder.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/state_dict.h"
#include "gbcompress/artifact.h"
#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;
using testing::put_file;
using testing::TempDir;

struct Sniff : ::testing::Test {
  FileKind of(const std::string& content, const std::string& name = "file") {
    put_file(dir / name, content);
    return sniff(dir / name);
  }
  TempDir dir;
};

TEST_F(Sniff, TellsKindsByContent) {
  EXPECT_EQ(sniff(dir.path()), FileKind::kFolder);
  EXPECT_EQ(of(testing::le(std::uint64_t{2}) + "{}"), FileKind::kSafetensors);
  EXPECT_EQ(of("GBZ2 and more", "x.pt"), FileKind::kArtifact);
  EXPECT_EQ(of("GBZ1 and more", "x.pt"), FileKind::kArtifact);
  EXPECT_EQ(of(p::saved("}", {})), FileKind::kStateDict);
  EXPECT_EQ(of("\x80\x02}q.", "old.pth"), FileKind::kStateDict);
  EXPECT_EQ(of(testing::zip({{"m/data.pkl", ""}, {"m/code/a.py", ""}, {"m/constants.pkl", ""}})),
            FileKind::kTorchScript);
  EXPECT_EQ(of(testing::zip({{"m/data.pkl", ""}, {"m/constants.pkl", ""}})), FileKind::kStateDict);
  EXPECT_EQ(of(testing::zip({{"word/document.xml", ""}})), FileKind::kUnknown);
  EXPECT_EQ(of("some text"), FileKind::kUnknown);
  EXPECT_EQ(of("{}"), FileKind::kUnknown);
}

TEST_F(Sniff, NamesDecideWhereContentSaysNothing) {
  EXPECT_EQ(of("some text", "x.safetensors"), FileKind::kSafetensors);
  EXPECT_EQ(of("{}", "x.safetensors.index.json"), FileKind::kFolder);
  EXPECT_EQ(of("{}", "pytorch_model.bin.index.json"), FileKind::kFolder);
}

TEST_F(Sniff, WhatCannotBeRead) {
  GBC_EXPECT_ERROR(of("", "x.safetensors"), Errc::kTruncated, "x.safetensors is empty");
  GBC_EXPECT_ERROR(sniff(dir / "none"), Errc::kNotFound, "does not exist");
  GBC_EXPECT_ERROR(of("PK\x03\x04 cut"), Errc::kTruncated, "cut off");
}

TEST_F(Sniff, OpenTensorsReadsBothKindsAndNamesTheOthers) {
  put_file(dir / "a.pt",
           p::saved(p::dict({p::text("w"), p::tensor("Byte", "0", 2, 0, {2}, {1})}), {"ab"}));
  const auto pickled = open_tensors(dir / "a.pt");
  EXPECT_EQ(testing::to_text(pickled.find("w")->bytes), "ab");
  write_safetensors(dir / "a.safetensors", pickled.tensors, {}, false);
  EXPECT_EQ(testing::to_text(open_tensors(dir / "a.safetensors").find("w")->bytes), "ab");
  EXPECT_EQ(open_tensors(dir.path()).tensors.size(), 1u);
  put_file(dir / "b", "GBZ2");
  GBC_EXPECT_ERROR(open_tensors(dir / "b"), Errc::kUnsupported, "expand it first");
  put_file(dir / "b",
           testing::zip({{"m/data.pkl", ""}, {"m/code/a", ""}, {"m/constants.pkl", ""}}));
  GBC_EXPECT_ERROR(open_tensors(dir / "b"), Errc::kUnsupported, "TorchScript");
  put_file(dir / "b", "text");
  GBC_EXPECT_ERROR(open_tensors(dir / "b"), Errc::kUnsupported, "neither safetensors nor");
}

TEST_F(Sniff, WhatStandsInForAFileIsNamedUnderAnyName) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') +
      "\nsize 9\n";
  for (const std::string name :
       {"model.safetensors", "pytorch_model.bin", "model.gbz", "a.pt", "a.pth.tar", "model.pt2",
        "a", "model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    const auto refuse = [&](const std::string& content, const std::string& words) {
      const TempDir folder;
      put_file(folder / name, content);
      const std::string says = name + " " + words;
      GBC_EXPECT_ERROR(sniff(folder / name), Errc::kUnsupported, says);
      GBC_EXPECT_ERROR(open_tensors(folder / name), Errc::kUnsupported, says);
      GBC_EXPECT_ERROR(ArtifactReader::open(folder / name), Errc::kUnsupported, says);
      // As the only weights of a folder.
      if (holds_weights(folder.path()))
        GBC_EXPECT_ERROR(open_tensors(folder.path()), Errc::kUnsupported, says);
    };
    refuse(pointer, "is a Git LFS pointer, not the file itself; run `git lfs pull`");
    for (const char* page : {"<!DOCTYPE html><html></html>", "\n\n  <!doctype HTML>\n<html>",
                             "<HTML lang=en>", "\xef\xbb\xbf<html>", "<head><title>404</title>"})
      refuse(page, "is a web page, not a model; its download failed");
  }
  put_file(dir / "x", "<something else>");
  EXPECT_EQ(sniff(dir / "x"), FileKind::kUnknown);
}

TEST_F(Sniff, FilesOfNoUseAreNamed) {
  const auto refuse = [&](const std::string& content, const std::string& words) {
    put_file(dir / "x", content);
    GBC_EXPECT_ERROR(open_tensors(dir / "x"), Errc::kUnsupported, words);
  };
  refuse("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "run `git lfs pull`");
  refuse("<!DOCTYPE html><html></html>", "a web page");
  refuse("\x1f\x8b\x08 packed", "compressed with gzip");
  refuse("\x89HDF\r\n\x1a\n", "HDF5");
  std::string tar = "storages" + std::string(249, '\0') + "ustar" + std::string(250, '\0');
  refuse(tar, "the tar format that PyTorch wrote before 0.1.10");
  tar[0] = 'x';
  refuse(tar, "a tar archive; unpack it first");
}

TEST_F(Sniff, PublishedFiles) {
  const std::string models = GBC_SOURCE_DIR "/../shared/data/models/";
  if (!std::filesystem::is_directory(models)) GTEST_SKIP() << models << " is absent";
  for (const std::string name : {"lenet-300-100-mnist", "resnet20-cifar10"}) {
    EXPECT_EQ(sniff(models + name + ".safetensors"), FileKind::kSafetensors);
    EXPECT_EQ(sniff(models + name + ".state_dict.pt"), FileKind::kStateDict);
    EXPECT_EQ(sniff(models + name + ".torchscript.pt"), FileKind::kTorchScript);
  }
}

}  // namespace
}  // namespace gbcompress
