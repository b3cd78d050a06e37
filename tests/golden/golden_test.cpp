#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/digest.h"
#include "base/file.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "golden/samples.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(GBC_SOURCE_DIR) / "tests" / "golden";

nlohmann::json recorded(const fs::path& path) {
  return nlohmann::json::parse(read_text(path, 1 << 20));
}

TEST(Golden, EveryVersionStillDecodesToItsRecordedDigests) {
  const auto files = recorded(kFolder / "v2" / "digests.json");
  EXPECT_GE(files.size(), 4u);
  for (const auto& [file, tensors] : files.items()) {
    SCOPED_TRACE(file);
    const fs::path path = kFolder / "v2" / (file + ".gbz");
    EXPECT_LE(fs::file_size(path), 4096u);
    const auto reader = ArtifactReader::open(path);
    reader.verify();
    ASSERT_EQ(reader.tensors().size(), tensors.size());
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      EXPECT_EQ(to_hex(sha256(decode_tensor(reader, i, samples::place_all()))),
                tensors.at(reader.tensors()[i].name).get<std::string>());
  }
}

TEST(Golden, EveryBadFileIsRefusedWithItsRecordedCode) {
  const auto codes = recorded(kFolder / "errors" / "codes.json");
  EXPECT_GE(codes.size(), 80u);
  for (const auto& [file, code] : codes.items()) {
    std::string got = "accepted";
    try {
      ArtifactReader::open(kFolder / "errors" / (file + ".gbz")).verify();
    } catch (const Error& error) {
      got = errc_name(error.code());
      EXPECT_EQ(std::string(error.what()), printable(error.what())) << file;
    }
    EXPECT_EQ(got, code.get<std::string>()) << file;
  }
}

TEST(Golden, DeltasStillExpandOnTheirBase) {
  const BaseModel base = BaseModel::open(kFolder / "deltas" / "base.safetensors");
  const BaseModel now = BaseModel::open(kFolder / "deltas" / "now.safetensors");
  const auto reader = ArtifactReader::open(kFolder / "deltas" / "delta.gbz");
  EXPECT_EQ(reader.digest(), now.digest());
  ASSERT_EQ(reader.tensors().size(), now.tensors().tensors.size());
  int changes = 0;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    const auto bytes = decode_tensor(reader, i, {.base = base_source(reader, {&base, 1})});
    EXPECT_TRUE(std::ranges::equal(bytes, now.find(tensor.name)->bytes)) << tensor.name;
    changes += tensor.kind == TensorKind::kChange;
  }
  EXPECT_EQ(changes, 10);
}

TEST(Golden, LayersStillExpand) {
  const BaseModel now = BaseModel::open(kFolder / "deltas" / "now.safetensors");
  const fs::path file = kFolder / "deltas" / "layers.gbz";
  const auto reader = ArtifactReader::open(file);
  ASSERT_TRUE(reader.draft());
  int changes = 0;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    EXPECT_TRUE(std::ranges::equal(decode_tensor(reader, i), now.find(tensor.name)->bytes))
        << tensor.name;
    changes += tensor.kind == TensorKind::kChange;
  }
  EXPECT_GT(changes, 0);
  const auto draft = ArtifactReader::open(file, {}, DigestCheck::kAtOnce, Layer::kDraft);
  EXPECT_TRUE(draft.is_draft());
}

TEST(Golden, PiecesStillExpandOnTheirBases) {
  const fs::path folder = kFolder / "deltas";
  const std::vector<BaseModel> bases = {BaseModel::open(folder / "pieces-second.safetensors"),
                                        BaseModel::open(folder / "pieces-first.safetensors")};
  const BaseModel now = BaseModel::open(folder / "pieces-now.safetensors");
  const auto reader = ArtifactReader::open(folder / "pieces.gbz");
  reader.verify();
  ASSERT_EQ(reader.tensors().size(), now.tensors().tensors.size());
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const auto bytes = decode_tensor(reader, i, {.base = base_source(reader, bases)});
    EXPECT_TRUE(std::ranges::equal(bytes, now.find(reader.tensors()[i].name)->bytes))
        << reader.tensors()[i].name;
  }
  EXPECT_EQ(BaseModel::on(reader, bases).digest(), reader.digest());
}

/// The dump in the format's description is a file of this folder, byte by byte.
TEST(Golden, TheDocumentedExampleIsARealFile) {
  const std::string text =
      read_text(fs::path(GBC_SOURCE_DIR) / "docs" / "reference" / "artifact-format.md", 1 << 20);
  const std::regex line("(?:^|\n) *[0-9a-f]{8}(  [0-9a-f]{2}(?: {1,2}[0-9a-f]{2}){0,15})"),
      byte("[0-9a-f]{2}");
  std::string bytes;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    const std::string row = (*at)[1];
    for (std::sregex_iterator b(row.begin(), row.end(), byte); b != end; ++b)
      bytes.push_back(static_cast<char>(std::stoi(b->str(), nullptr, 16)));
  }
  EXPECT_EQ(to_hex(bytes), to_hex(read_text(kFolder / "v2" / "tiny.gbz", 4096)));
}

}  // namespace
}  // namespace gbcompress
