#include "format/torch/exported_program.h"

#include "format/file_kind.h"
#include "pickle_builder.h"
#include "support/files.h"

namespace gbcompress {
namespace {

namespace p = testing::pickle;
using testing::to_text;
using testing::ZipEntry;

struct HeldProgram {
  explicit HeldProgram(const std::vector<ZipEntry>& entries, const OpenOptions& options = {})
      : bytes(testing::to_bytes(testing::zip(entries))),
        bundle(read_exported_program(bytes, "x.pt2", options)) {}
  testing::Bytes bytes;
  TensorBundle bundle;
};

std::string numbers(const std::vector<std::string>& values) {
  std::string text;
  for (const auto& value : values)
    text += (text.empty() ? "" : ",") + ("{\"as_int\":" + value + "}");
  return "[" + text + "]";
}

std::string weight(const std::vector<std::string>& sizes, const std::vector<std::string>& strides,
                   const std::string& offset = "0",
                   const std::string& more = "\"dtype\":1,\"layout\":7",
                   const std::string& pickled = "false", const std::string& path = "weight_0") {
  return "{\"path_name\":\"" + path + "\",\"is_param\":true,\"use_pickle\":" + pickled +
         ",\"tensor_meta\":{" + more + ",\"sizes\":" + numbers(sizes) +
         ",\"requires_grad\":false,\"device\":{\"type\":\"cpu\",\"index\":null},\"strides\":" +
         numbers(strides) + ",\"storage_offset\":{\"as_int\":" + offset + "}}}";
}

std::vector<ZipEntry> archive(const std::string& config, const std::string& data = "abcdef") {
  return {{"m/archive_format", "pt2"},
          {"m/models/model.json", "{}"},
          {"m/data/weights/weight_0", data},
          {"m/data/weights/model_weights_config.json", "{\"config\":" + config + "}"}};
}

void refuse(const std::vector<ZipEntry>& entries, Errc code, const std::string& words,
            const OpenOptions& options = {}) {
  GBC_EXPECT_ERROR(HeldProgram(entries, options), code, words);
}

void refuse_weight(const std::string& entry, Errc code, const std::string& words) {
  refuse(archive("{\"w\":" + entry + "}"), code, words);
}

TEST(ExportedProgram, WeightsAreViewsByOffsetAndStride) {
  const HeldProgram held(
      archive("{\"b\":" + weight({"2", "3"}, {"3", "1"}) + ",\"a\":" + weight({"2"}, {"1"}, "4") +
              ",\"t\":" + weight({"3", "2"}, {"1", "3"}) + ",\"s\":" + weight({}, {}, "5") + "}"));
  EXPECT_EQ(to_text(held.bundle.find("b")->bytes), "abcdef");
  EXPECT_EQ(to_text(held.bundle.find("a")->bytes), "ef");
  EXPECT_EQ(to_text(held.bundle.find("t")->bytes), "adbecf");
  EXPECT_EQ(to_text(held.bundle.find("s")->bytes), "f");
  EXPECT_TRUE(held.bundle.notes.empty());
}

TEST(ExportedProgram, OlderArchivesHoldAStateDict) {
  const std::string nested =
      p::saved(p::dict({p::text("w"), p::tensor("Byte", "0", 2, 0, {2}, {1})}), {"ab"});
  for (const auto& entries :
       {std::vector<ZipEntry>{{"serialized_exported_program.json", "{}"},
                              {"serialized_state_dict.pt", nested}},
        std::vector<ZipEntry>{{"m/archive_format", "pt2"}, {"m/data/weights/model.pt", nested}}}) {
    EXPECT_EQ(sniff_bytes(testing::to_bytes(testing::zip(entries)), "x"), FileKind::kExported);
    const HeldProgram held(entries);
    EXPECT_EQ(to_text(held.bundle.find("w")->bytes), "ab");
  }
}

TEST(ExportedProgram, OtherKindsAreNamed) {
  refuse({{"m/archive_format", "pt2"}, {"m/data/aotinductor/model/x.so", "code"}},
         Errc::kUnsupported, "an AOTInductor package: compiled code, not weights");
  refuse({{"m/archive_format", "pt2"}}, Errc::kUnsupported, "without weights of torch.export");
  refuse(archive("{}"), Errc::kUnsupported, "without weights");
}

TEST(ExportedProgram, SeveralProgramsAreChosenFromByName) {
  auto entries = archive("{\"w\":" + weight({"2"}, {"1"}) + "}");
  entries.push_back({"m/data/weights/decoder_weights_config.json",
                     "{\"config\":{\"v\":" + weight({"3"}, {"1"}) + "}}"});
  refuse(entries, Errc::kUsage, "holds 2 programs: decoder, model; choose one with `part` NAME");
  refuse(entries, Errc::kNotFound, "no program x; it has decoder, model", {.part = "x"});
  EXPECT_NE(HeldProgram(entries, {.part = "decoder"}).bundle.find("v"), nullptr);
}

TEST(ExportedProgram, WeightsThatCannotBe) {
  refuse_weight(weight({"7"}, {"1"}), Errc::kCorrupt, "tensor w reaches beyond its storage of 6");
  refuse_weight(weight({"2"}, {"1"}, "5"), Errc::kCorrupt, "beyond");
  refuse_weight(weight({"2"}, {"1", "1"}), Errc::kCorrupt, "do not fit");
  refuse_weight(weight({"-2"}, {"1"}), Errc::kCorrupt, "not a non-negative integer");
  refuse_weight(weight({"2"}, {"1.5"}), Errc::kCorrupt, "not a non-negative integer");
  refuse_weight(weight({"9223372036854775808"}, {"1"}), Errc::kLimit, "too large");
  refuse_weight(weight(std::vector<std::string>(9, "1"), std::vector<std::string>(9, "1")),
                Errc::kLimit, "9 dimensions");
  refuse_weight(weight(std::vector<std::string>(20, "1"), {}), Errc::kLimit, "8 dimensions");
  refuse_weight(weight({"2"}, {"1"}, "0", "\"dtype\":11,\"layout\":7"), Errc::kUnsupported,
                "unknown dtype");
  refuse_weight(weight({"2"}, {"1"}, "0", "\"dtype\":1,\"layout\":1"), Errc::kUnsupported,
                "sparse");
  refuse_weight(weight({"2"}, {"1"}, "0", "\"dtype\":1,\"layout\":7", "true"), Errc::kUnsupported,
                "a pickled tensor");
  refuse_weight(weight({"2"}, {"1"}, "0", "\"dtype\":1,\"layout\":7", "false", "../x"),
                Errc::kCorrupt, "lacks the entry");
  refuse_weight("{\"w\":", Errc::kCorrupt, "not JSON");
}

}  // namespace
}  // namespace gbcompress
