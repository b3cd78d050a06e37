#include "artifact/originals.h"

#include <gtest/gtest.h>

#include "base/byte_reader.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "support/code_of.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::get_file;
using testing::put_file;
using testing::TempDir;
using testing::to_bytes;

constexpr std::string_view kData = "ABCDEFGHijklmnop";  // two tensors of 8 bytes

std::string with_header(const std::string& header, std::string_view data = kData) {
  std::string length(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(length.data(), &size, sizeof size);
  return length + header + std::string(data);
}

std::string entry(const std::string& name, const std::string& type, int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" +
         std::to_string((end - begin) / (type == "F32" ? 4 : 1)) + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string padded(std::string header) {
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

const std::string kPlain =
    padded("{" + entry("w", "F32", 0, 8) + "," + entry("b", "U8", 8, 16) + "}");

/// The tensors of a bundle, exactly, and its files.
Bytes artifact_of(const TensorBundle& bundle) {
  ArtifactWriter writer("", "");
  for (const TensorEntry& tensor : bundle.tensors)
    writer.add_plain(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  std::string note;
  auto originals = find_originals(bundle, note);
  EXPECT_EQ(note, "");
  if (originals) {
    digest_originals(*originals, bundle);
    writer.set_originals(pack_originals(originals->encode()));
  }
  return writer.encode();
}

/// @return whether the header follows from the tensors
bool comes_back(const std::string& content) {
  const TempDir folder;
  put_file(folder / "m.safetensors", content);
  const TensorBundle bundle = open_tensors(folder / "m.safetensors");
  std::string note;
  const bool headed = find_originals(bundle, note).value().files.at(0).headed;
  const auto artifact = ArtifactReader::from_bytes(artifact_of(bundle), "m.gbz");
  check_originals(artifact, bundle);
  artifact.verify();
  const auto info = originals_of(artifact).value();
  EXPECT_EQ(info.format, "safetensors");
  EXPECT_EQ(info.files.at(0).name, "m.safetensors");
  EXPECT_EQ(info.files.at(0).bytes, static_cast<std::int64_t>(content.size()));
  EXPECT_EQ(info.files.at(0).sha256, file_digest(folder / "m.safetensors"));
  const fs::path back = folder / "back.safetensors";
  EXPECT_EQ(decode_to_file(artifact, back, false), static_cast<std::int64_t>(content.size()));
  EXPECT_EQ(get_file(back), content);
  return headed;
}

TEST(Originals, HeadersOfTheReferenceWriterFollowFromTheTensors) {
  EXPECT_TRUE(comes_back(with_header(kPlain)));
  const std::string entries = entry("w", "F32", 0, 8) + "," + entry("b", "U8", 8, 16) + "}";
  EXPECT_TRUE(comes_back(with_header(padded("{\"__metadata__\":{\"format\":\"pt\"}," + entries))));
  EXPECT_TRUE(comes_back(
      with_header(padded("{\"__metadata__\":{\"z\":\"1\",\"a\":\"\\u00e9\"}," + entries))));
  EXPECT_TRUE(comes_back(with_header(padded("{\"__metadata__\":{ }," + entries))));
  // Names as JSON writes them.
  EXPECT_TRUE(comes_back(with_header(
      padded("{" + entry("w\\\"\\\\", "F32", 0, 8) + "," + entry("\xC3\xA9", "U8", 8, 16) + "}"))));
  // Another order of names than the reference writer's, as long as the elements have the same.
  EXPECT_TRUE(comes_back(
      with_header(padded("{" + entry("b", "U8", 0, 8) + "," + entry("a", "F32", 8, 16) + "}"))));
  // An empty tensor in front, in between and at the end.
  EXPECT_TRUE(
      comes_back(with_header(padded("{" + entry("a", "F32", 0, 0) + "," + entry("w", "F32", 0, 8) +
                                    "," + entry("e", "F32", 8, 8) + "," + entry("b", "U8", 8, 16) +
                                    "," + entry("z", "U8", 16, 16) + "}"))));
}

TEST(Originals, OtherHeadersAreKeptWhole) {
  const std::string w = entry("w", "F32", 0, 8), b = entry("b", "U8", 8, 16);
  for (const std::string& header :
       {padded("{" + b + "," + w + "}"),                      // not in the order of the elements
        "{" + w + "," + b + "}" + std::string(51, ' '),       // padded further
        "{" + w + "," + b + "}",                              // not padded
        padded("{ " + w + ", " + b + " }"),                   // blanks
        padded("{\n" + w + ",\n\t" + b + "\n}"),              // lines
        padded("{" + w + "," + b + ",\"__metadata__\":{}}"),  // metadata at the end
        padded("{" + entry("\\u0077", "F32", 0, 8) + "," + b + "}"),  // escapes that are not needed
        padded(R"({"w":{"shape":[2],"dtype":"F32","data_offsets":[0,8]},)" + b + "}")})
    EXPECT_FALSE(comes_back(with_header(header))) << header;
  EXPECT_FALSE(comes_back(with_header(padded("{}"), "")));
  EXPECT_FALSE(comes_back(with_header(padded("{\"__metadata__\":{\"a\":\"b\"}}"), "")));
}

TEST(Originals, AreWrittenOnlyUnderTheFormatThatTheyHave) {
  const TempDir folder;
  put_file(folder / "m.safetensors", with_header(kPlain + "        "));
  const auto artifact =
      ArtifactReader::from_bytes(artifact_of(open_tensors(folder / "m.safetensors")), "m.gbz");
  EXPECT_TRUE(gives_original(artifact, "x.safetensors"));
  EXPECT_TRUE(gives_original(artifact, "x"));
  EXPECT_FALSE(gives_original(artifact, "x.npz"));
  GBC_EXPECT_ERROR((void)gives_original(artifact, "x.pt"), Errc::kUsage, "are not written");
  decode_to_file(artifact, folder / "x.npz", false);
  EXPECT_EQ(get_file(folder / "x.npz").substr(0, 2), "PK");
}

TEST(Originals, OfAFolderAreItsShardsAndTheIndex) {
  const TempDir folder, back;
  const std::string one = "m-00001-of-00002.safetensors", two = "m-00002-of-00002.safetensors";
  put_file(folder / one, with_header(padded("{" + entry("w", "F32", 0, 8) + "}"), "ABCDEFGH"));
  put_file(folder / two, with_header(padded("{ " + entry("b", "U8", 0, 8) + "}"), "ijklmnop"));
  put_file(folder / "m.safetensors.index.json",
           "{\"weight_map\": {\"w\": \"" + one + "\",\n\"b\": \"" + two + "\"}}\n");
  const TensorBundle bundle = open_tensors(folder.path());
  const auto artifact = ArtifactReader::from_bytes(artifact_of(bundle), "m.gbz");
  check_originals(artifact, bundle);
  const auto info = originals_of(artifact).value();
  ASSERT_EQ(info.files.size(), 3u);
  EXPECT_FALSE(gives_original(artifact, "x.safetensors"));  // one file of all tensors
  decode_to_originals(artifact, back / info.files[0].name, false);
  for (const OriginalInfo& file : info.files) {
    EXPECT_EQ(get_file(back / file.name), get_file(folder / file.name)) << file.name;
    EXPECT_EQ(file.sha256, file_digest(folder / file.name));
  }
  GBC_EXPECT_ERROR(decode_to_originals(artifact, back / "other.json", false), Errc::kExists,
                   "00001");
  EXPECT_FALSE(fs::exists(back / "other.json"));
}

TEST(Originals, AreNotKeptOfAPart) {
  const TempDir folder;
  put_file(folder / "m.safetensors", with_header(padded("{" + entry("a.w", "F32", 0, 8) + "," +
                                                        entry("b.w", "U8", 8, 16) + "}")));
  std::string note;
  EXPECT_FALSE(find_originals(open_tensors(folder / "m.safetensors", {.part = "a"}), note));
  EXPECT_FALSE(find_originals(TensorBundle{}, note));
  EXPECT_EQ(note, "");
}

TEST(Originals, WithAnotherDigestAreRefusedBeforeTheyHaveTheirName) {
  const TempDir folder;
  put_file(folder / "m.safetensors", with_header(kPlain));
  const TensorBundle bundle = open_tensors(folder / "m.safetensors");
  std::string note;
  OriginalFiles originals = find_originals(bundle, note).value();
  digest_originals(originals, bundle);
  const auto refuse = [&](const OriginalFiles& wrong) {
    ArtifactWriter writer("", "");
    for (const TensorEntry& tensor : bundle.tensors)
      writer.add_plain(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
    writer.set_originals(pack_originals(wrong.encode()));
    const auto artifact = ArtifactReader::from_bytes(writer.encode(), "m.gbz");
    GBC_EXPECT_ERROR(decode_to_file(artifact, folder / "back.safetensors", false), Errc::kCorrupt,
                     "does not come back as it was");
    EXPECT_FALSE(fs::exists(folder / "back.safetensors"));
  };
  OriginalFiles other = originals;
  other.files[0].sha256[5] ^= 1;
  refuse(other);
  other = originals;
  ++other.files[0].bytes;
  refuse(other);
  // Holes in another order.
  other = originals;
  std::swap(other.files[0].content.holes[0].tensor, other.files[0].content.holes[1].tensor);
  refuse(other);
}

TEST(Originals, CheckSeesEveryByteThatDiffers) {
  const TempDir folder;
  put_file(folder / "m.safetensors", with_header(kPlain + "        "));
  const TensorBundle bundle = open_tensors(folder / "m.safetensors");
  const auto artifact = ArtifactReader::from_bytes(artifact_of(bundle), "m.gbz");
  check_originals(artifact, bundle);
  std::string other = with_header(kPlain + "        ");
  TensorBundle changed = bundle;
  const auto refuse = [&] {
    GBC_EXPECT_ERROR(check_originals(artifact, changed), Errc::kFailure, "byte for byte");
  };
  other[20] ^= 1;
  changed.contents = {std::as_bytes(std::span(other))};
  refuse();
  changed = bundle;
  changed.contents[0] = bundle.contents[0].first(bundle.contents[0].size() - 1);
  refuse();
  changed = bundle;
  changed.tensors[1].bytes = bundle.tensors[0].bytes;
  refuse();
}

TEST(Originals, RefuseWhatIsMalformed) {
  const OriginalFile file{20,
                          std::string(32, 'x'),
                          true,
                          {{0, {1, 0}}},
                          {"m.safetensors", {{0, 0, PayloadEncoding::kBytes, {}}}, to_bytes("{")}};
  const OriginalFile second{20, std::string(32, 'x'), false, {}, {"d/n.bin", {}, to_bytes("abc")}};
  const OriginalFiles good{"safetensors", {file, second}};
  const Bytes bytes = good.encode();
  const OriginalFiles back = OriginalFiles::decode(bytes, 1, "x");
  EXPECT_EQ(back.encode(), bytes);
  EXPECT_EQ(back.files[1].content.name, "d/n.bin");
  const auto code = [](const Bytes& wrong, std::size_t tensors = 1) {
    return code_of([&] { OriginalFiles::decode(wrong, tensors, "x"); });
  };
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Errc cut = code({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)});
    EXPECT_TRUE(cut == Errc::kTruncated || cut == Errc::kCorrupt) << n;
  }
  EXPECT_EQ(code(bytes, 0), Errc::kCorrupt);  // no such tensor
  Bytes wrong = bytes;
  wrong[0] = std::byte{2};
  EXPECT_EQ(code(wrong), Errc::kUnsupported);
  const auto changed = [&](auto change) {
    OriginalFiles originals = good;
    change(originals);
    return code(originals.encode());
  };
  for (const std::string name :
       {"", "/etc/passwd", "../m", "a/../b", "a//b", "a\\b", "a\nb", ".", "d/n.bin"})
    EXPECT_EQ(changed([&](OriginalFiles& o) { o.files[0].content.name = name; }), Errc::kCorrupt)
        << name;
  for (const std::string name : {"../m", "/m", "m.safetensors"})
    EXPECT_EQ(changed([&](OriginalFiles& o) { o.files[1].content.name = name; }), Errc::kCorrupt)
        << name;
  EXPECT_EQ(changed([](OriginalFiles& o) { o.files[0].content.skeleton.clear(); }), Errc::kCorrupt);
  EXPECT_EQ(changed([](OriginalFiles& o) { o.files[0].content.holes[0].before = 1; }),
            Errc::kCorrupt);
  for (const std::vector<std::uint8_t>& order :
       {std::vector<std::uint8_t>{0, 0}, {0, 2}, std::vector<std::uint8_t>(9)})
    EXPECT_EQ(changed([&](OriginalFiles& o) { o.files[0].orders = {{0, order}}; }), Errc::kCorrupt);
  EXPECT_EQ(changed([](OriginalFiles& o) { o.files[0].orders = {{1, {0}}}; }), Errc::kCorrupt);
  EXPECT_EQ(changed([](OriginalFiles& o) {
              o.files[1].content.holes = {{0, 0, PayloadEncoding::kBytes, {}}};
            }),
            Errc::kCorrupt);  // a tensor in two places
}

}  // namespace
}  // namespace gbcompress
