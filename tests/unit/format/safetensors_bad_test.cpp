// One handmade bad file for each rule of the format.
#include <cstdint>
#include <random>

#include "format/safetensors/safetensors.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::to_bytes;

std::string file_of(const std::string& header, const std::string& data) {
  std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

SafetensorsFile parse(const std::string& file) {
  // A copy of its exact size, so that a sanitizer sees any byte read beyond it.
  static testing::Bytes bytes;
  bytes = to_bytes(file);
  bytes.shrink_to_fit();
  return SafetensorsFile::from_bytes(bytes, "bad.safetensors");
}

std::string entry(const std::string& name, const std::string& shape, int begin, int end,
                  const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

const std::string kData16(16, 'x');

struct BadFile {
  const char* rule;
  std::string file;
  Errc code;
  std::string words;  ///< that the message must hold
};

std::string with_length(std::uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), 8) + "{}";
}

std::vector<BadFile> bad_files() {
  const auto of = [](const std::string& header) { return file_of(header, kData16); };
  const std::string good = entry("a", "[4]", 0, 16);
  const std::string deep(100'000, '[');
  return {
      {"Empty", "", Errc::kTruncated, "is empty"},
      {"ShorterThanALength", "1234567", Errc::kTruncated, "ends at byte 7"},
      {"LengthZero", with_length(0), Errc::kCorrupt, "not a JSON object"},
      {"LengthPastTheEnd", with_length(3), Errc::kTruncated, "3 more were expected"},
      {"LengthAtTheLimit", with_length(100'000'000), Errc::kTruncated, "100000000 more"},
      {"LengthAboveTheLimit", with_length(100'000'001), Errc::kLimit, "at most 100,000,000"},
      {"LengthWraps", with_length(~std::uint64_t{0} - 7), Errc::kLimit, "at most 100,000,000"},
      {"NotJson", of("{this is not it}"), Errc::kCorrupt, "not JSON at byte"},
      {"NotAnObject", of("[1,2]"), Errc::kCorrupt, "not a JSON object"},
      {"SpaceBeforeTheObject", of(" {" + good + "}"), Errc::kCorrupt, "not a JSON object"},
      {"NewlinePadding", of("{" + good + "}\n"), Errc::kCorrupt, "not a JSON object"},
      {"NulPadding", of("{" + good + "}" + std::string(2, '\0')), Errc::kCorrupt, "not a JSON"},
      {"TextAfterTheObject", of("{" + good + "}{}"), Errc::kCorrupt, "not JSON at byte"},
      {"Unclosed", of("{" + good + ",\"b\":{}"), Errc::kCorrupt, "tensor b lacks dtype"},
      {"DeepLists", of("{\"a\":" + deep + "}"), Errc::kCorrupt, "tensor a is not a JSON object"},
      {"DeepObjects", of("{\"a\":{\"shape\":{\"b\":{}}}}"), Errc::kCorrupt,
       "non-negative integers"},
      {"NotUtf8", of("{" + entry("\xff", "[4]", 0, 16) + "}"), Errc::kCorrupt, "not JSON"},
      {"LoneSurrogate", of("{" + entry("\\ud800", "[4]", 0, 16) + "}"), Errc::kCorrupt, "not JSON"},
      {"DuplicateName", of("{" + entry("a", "[2]", 0, 8) + "," + entry("a", "[2]", 8, 16) + "}"),
       Errc::kCorrupt, "key a twice"},
      {"DuplicateEscapedName",
       of("{" + entry("a", "[2]", 0, 8) + "," + entry("\\u0061", "[2]", 8, 16) + "}"),
       Errc::kCorrupt, "key a twice"},
      {"DuplicateField", of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), Errc::kCorrupt,
       "key dtype twice"},
      {"DuplicateMetadata", of("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), Errc::kCorrupt,
       "key k twice"},
      {"MetadataNumber", of("{\"__metadata__\":{\"k\":1}," + good + "}"), Errc::kCorrupt,
       "not a string"},
      {"MetadataNested", of("{\"__metadata__\":{\"k\":{}}," + good + "}"), Errc::kCorrupt,
       "not a string"},
      {"MetadataText", of("{\"__metadata__\":\"pt\"," + good + "}"), Errc::kCorrupt,
       "__metadata__ is not a JSON object"},
      {"EntryIsANumber", of("{\"a\":1}"), Errc::kCorrupt, "tensor a is not a JSON object"},
      {"EntryIsNull", of("{\"a\":null}"), Errc::kCorrupt, "tensor a is not a JSON object"},
      {"NoDtype", of("{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}"), Errc::kCorrupt,
       "lacks dtype"},
      {"NoShape", of("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}"), Errc::kCorrupt,
       "lacks shape"},
      {"NoOffsets", of("{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}"), Errc::kCorrupt,
       "lacks data_offsets"},
      {"UnknownField", of("{\"a\":{\"dtype\":\"F32\",\"strides\":[4]}}"), Errc::kUnsupported,
       "unknown field strides"},
      {"UnknownDtype", of("{" + entry("a", "[4]", 0, 16, "F128") + "}"), Errc::kUnsupported,
       "unknown dtype F128"},
      {"DtypeIsANumber", of("{\"a\":{\"dtype\":4}}"), Errc::kCorrupt, "dtype is not a string"},
      {"ShapeIsText", of("{\"a\":{\"shape\":\"4\"}}"), Errc::kCorrupt,
       "list of non-negative integers"},
      {"NegativeSide", of("{" + entry("a", "[-4]", 0, 16) + "}"), Errc::kCorrupt,
       "non-negative integers"},
      {"FractionalSide", of("{" + entry("a", "[4.0]", 0, 16) + "}"), Errc::kCorrupt,
       "non-negative integers"},
      {"SideAbove63Bits", of("{" + entry("a", "[9223372036854775808]", 0, 16) + "}"), Errc::kLimit,
       "too large"},
      {"SideAbove64Bits", of("{" + entry("a", "[99999999999999999999]", 0, 16) + "}"),
       Errc::kCorrupt, "non-negative integers"},
      {"ShapeWrapsToTheSize", of("{" + entry("a", "[4294967297,4294967296,4]", 0, 16) + "}"),
       Errc::kLimit, "too large"},
      {"BytesWrap", of("{" + entry("a", "[4611686018427387908]", 0, 16) + "}"), Errc::kLimit,
       "too large"},
      {"Rank9", of("{" + entry("a", "[4,1,1,1,1,1,1,1,1]", 0, 16) + "}"), Errc::kLimit,
       "more than 8"},
      {"OneOffset", of("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}"),
       Errc::kCorrupt, "two data_offsets"},
      {"ThreeOffsets", of("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,16]}}"),
       Errc::kCorrupt, "two data_offsets"},
      {"NegativeOffset", of("{" + entry("a", "[4]", -1, 15) + "}"), Errc::kCorrupt,
       "non-negative integers"},
      {"OffsetsBackwards", of("{" + entry("a", "[4]", 16, 0) + "}"), Errc::kCorrupt,
       "needs 16 bytes"},
      {"SizeTooSmall", of("{" + entry("a", "[4]", 0, 15) + "}"), Errc::kCorrupt, "needs 16 bytes"},
      {"SizeTooLarge", of("{" + entry("a", "[3]", 0, 16) + "}"), Errc::kCorrupt, "needs 12 bytes"},
      {"OutOfRange", of("{" + good + "," + entry("b", "[4]", 16, 32) + "}"), Errc::kTruncated,
       "tensor b ends at byte 32"},
      {"Overlap", of("{" + entry("a", "[3]", 0, 12) + "," + entry("b", "[2]", 8, 16) + "}"),
       Errc::kCorrupt, "tensor b overlaps"},
      {"SameRangeTwice", of("{" + good + "," + entry("b", "[4]", 0, 16) + "}"), Errc::kCorrupt,
       "overlaps"},
      {"HoleAtTheStart", of("{" + entry("a", "[3]", 4, 16) + "}"), Errc::kCorrupt, "hole"},
      {"HoleInside", of("{" + entry("a", "[1]", 0, 4) + "," + entry("b", "[2]", 8, 16) + "}"),
       Errc::kCorrupt, "tensor b leaves a hole"},
      {"TrailingBytes", of("{" + entry("a", "[3]", 0, 12) + "}"), Errc::kCorrupt,
       "4 bytes after its last tensor"},
      {"DataWithoutTensors", of("{}"), Errc::kCorrupt, "16 bytes after"},
      {"EmptyTensorPastTheEnd", of("{" + good + "," + entry("b", "[0]", 1000, 1000) + "}"),
       Errc::kTruncated, "tensor b"},
      {"EmptyTensorInsideAnother", of("{" + good + "," + entry("b", "[0]", 8, 8) + "}"),
       Errc::kCorrupt, "overlaps"},
      {"NulInName", of("{" + entry("a\\u0000b", "[4]", 0, 16) + "}"), Errc::kCorrupt,
       "a\\x00b holds a control character"},
      {"EscapeInName", of("{" + entry("\\u001b[2J", "[4]", 0, 16) + "}"), Errc::kCorrupt,
       "control character"},
      {"C1ControlInName", of("{" + entry("\\u009b1m", "[4]", 0, 16) + "}"), Errc::kCorrupt,
       "control character"},
      {"EmptyName", of("{" + entry("", "[4]", 0, 16) + "}"), Errc::kCorrupt, "empty name"},
      {"LongName", of("{" + entry(std::string(513, 'n'), "[4]", 0, 16) + "}"), Errc::kLimit,
       "513 bytes, at most 512"},
      {"HalfByte", file_of("{" + entry("a", "[3]", 0, 1, "F4") + "}", "x"), Errc::kCorrupt,
       "12 bits"},
      {"SixBits", file_of("{" + entry("a", "[2]", 0, 1, "F6_E2M3") + "}", "x"), Errc::kCorrupt,
       "12 bits"},
  };
}

class SafetensorsBad : public ::testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsBad, IsRefusedWithItsOwnCode) {
  const BadFile& bad = GetParam();
  GBC_EXPECT_ERROR(parse(bad.file), bad.code, bad.words);
  GBC_EXPECT_ERROR(parse(bad.file), bad.code, "bad.safetensors");
}

INSTANTIATE_TEST_SUITE_P(Rules, SafetensorsBad, ::testing::ValuesIn(bad_files()),
                         [](const auto& info) { return std::string(info.param.rule); });

std::string small_file() {
  return file_of("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "[2,1]", 0, 8) + "," +
                     entry("none", "[0,3]", 8, 8, "I64") + "," + entry("z", "[]", 8, 12, "U32") +
                     "}  ",
                 "0123456789ab");
}

TEST(SafetensorsRead, ScalarsEmptyTensorsPaddingAndMetadata) {
  const auto file = parse(small_file());
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"k", "v"}}));
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(testing::to_text(file.tensors()[0].bytes), "01234567");
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{0, 3}));
  EXPECT_TRUE(file.tensors()[1].bytes.empty());
  EXPECT_EQ(file.tensors()[2].dtype, DType::kU32);
  EXPECT_TRUE(file.tensors()[2].shape.empty());
  EXPECT_EQ(testing::to_text(file.tensors()[2].bytes), "89ab");
}

TEST(SafetensorsRead, TheSmallestFile) { EXPECT_TRUE(parse(file_of("{}", "")).tensors().empty()); }

TEST(SafetensorsRead, NamesAreSortedAndMayLookLikePaths) {
  const auto file = parse(
      file_of("{" + entry("b", "[1]", 0, 4) + "," + entry("../../etc/passwd", "[1]", 4, 8) + "}",
              "00001111"));
  EXPECT_EQ(file.tensors()[0].name, "../../etc/passwd");
  EXPECT_EQ(testing::to_text(file.tensors()[0].bytes), "1111");
}

TEST(SafetensorsRead, LimitsThemselvesAreAllowed) {
  const std::string name(512, 'n');
  EXPECT_EQ(parse(file_of("{" + entry(name, "[1,1,1,1,1,1,1,4]", 0, 16) + "}", kData16))
                .tensors()[0]
                .shape.size(),
            8u);
}

TEST(SafetensorsRead, RefusesFoldersAndMissingFiles) {
  testing::TempDir dir;
  GBC_EXPECT_ERROR(SafetensorsFile::open(dir.path()), Errc::kIo, "is a folder");
  GBC_EXPECT_ERROR(SafetensorsFile::open(dir / "none"), Errc::kNotFound, "does not exist");
}

TEST(SafetensorsRead, EveryTruncationIsRefused) {
  const std::string file = small_file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    try {
      parse(file.substr(0, size));
      ADD_FAILURE() << size << " of " << file.size() << " bytes were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(errc_name(error.code()), "truncated") << error.what();
    }
  }
}

TEST(SafetensorsRead, DamageNeverGivesTensorsThatDoNotFit) {
  std::mt19937 random(7);
  const std::string file = small_file();
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = file;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1u << random() % 8);
    try {
      const auto parsed = parse(damaged);
      for (const TensorEntry& tensor : parsed.tensors()) {
        ASSERT_EQ(tensor.bytes.size(),
                  static_cast<std::size_t>(tensor_bytes(tensor.dtype, tensor.shape, "damaged")));
        check_tensor_name(tensor.name, "damaged");
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000) << "most of the file is header";
}

}  // namespace
}  // namespace gbcompress
