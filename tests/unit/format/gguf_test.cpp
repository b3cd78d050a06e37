#include <algorithm>

#include "format/container.h"
#include "format/gguf/model.h"
#include "format/gguf/open.h"
#include "format/gguf/types.h"
#include "support/files.h"
#include "unit/format/bundle_files.h"
#include "unit/format/gguf_builder.h"

namespace gbcompress {
namespace {

namespace b = testing::gguf;
using testing::files_of;
using testing::put_file;
using testing::TempDir;
using testing::to_bytes;
using testing::to_text;

constexpr std::uint32_t kF32 = 0, kF16 = 1, kQ8_0 = 8, kQ4_K = 12, kBF16 = 30, kNew = 777;

std::string filled(std::size_t bytes, int seed = 1) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 37 + i / 7 + seed);
  return text;
}

struct Gguf : ::testing::Test {
  TensorBundle read(const std::string& file) {
    bytes = to_bytes(file);
    return gguf::read_model(bytes, "x.gguf");
  }
  void refuse(const std::string& file, Errc code, const char* words) {
    bytes = to_bytes(file);
    GBC_EXPECT_ERROR(gguf::read_model(bytes, "x.gguf"), code, words);
  }
  testing::Bytes bytes;
};

std::vector<b::Tensor> some_tensors() {
  return {{"blk.0.w", kF32, {8, 4}, filled(128)},
          {"blk.0.half", kF16, {6, 2}, filled(24, 2)},
          {"brain", kBF16, {5}, filled(10, 3)},
          {"a.q8", kQ8_0, {64, 3}, filled(3 * 68, 4)},
          {"z.q4k", kQ4_K, {256, 2, 2}, filled(4 * 144, 5)},
          {"strange", kNew, {3, 5}, filled(96, 6)},
          {"last", 27, {3}, filled(24, 7)}};
}

TEST_F(Gguf, TensorsOfEveryTypeComeBack) {
  const std::string file = b::file({b::key("general.architecture", 8, b::text("llama")),
                                    b::key("list", 9, b::array(8, 2, b::text("a") + b::text("")))},
                                   some_tensors());
  const TensorBundle bundle = read(file);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  ASSERT_EQ(bundle.tensors.size(), 8U);
  const auto expect = [&](const char* name, DType dtype, const std::vector<std::int64_t>& shape,
                          const std::string& data) {
    const TensorEntry* entry = bundle.find(name);
    ASSERT_TRUE(entry) << name;
    EXPECT_EQ(entry->dtype, dtype) << name;
    EXPECT_EQ(entry->shape, shape) << name;
    EXPECT_EQ(to_text(entry->bytes), data) << name;
  };
  expect("blk.0.w", DType::kF32, {4, 8}, filled(128));
  expect("blk.0.half", DType::kF16, {2, 6}, filled(24, 2));
  expect("brain", DType::kBF16, {5}, filled(10, 3));
  expect("a.q8", DType::kU8, {3, 68}, filled(3 * 68, 4));
  expect("z.q4k", DType::kU8, {2, 2, 144}, filled(4 * 144, 5));
  expect("strange", DType::kU8, {96}, filled(96, 6));
  expect("last", DType::kI64, {3}, filled(24, 7));
  EXPECT_EQ(bundle.metadata.at("general.architecture"), "llama");
  EXPECT_EQ(bundle.metadata.at("list"), "2 values");
  EXPECT_TRUE(bundle.metadata.at("element types").starts_with("Q4_K, Q8_0"));
  ASSERT_EQ(bundle.notes.size(), 1U);
  EXPECT_NE(bundle.notes[0].find("(Q4_K), which is kept exact"), std::string::npos);
}

TEST_F(Gguf, EveryKindOfValueIsPassedOver) {
  std::vector<std::string> keys;
  const std::string values[] = {"\xff", "\xfe", "\1\2", "\3\4", b::u32(7), b::u32(~0U)};
  for (std::uint32_t type = 0; type < 6; ++type)
    keys.push_back(b::key("k" + std::to_string(type), type, values[type]));
  keys.push_back(b::key("real", 6, testing::le(0.5F)));
  keys.push_back(b::key("yes", 7, "\1"));
  keys.push_back(b::key("text", 8, b::text("line\nbreak")));
  keys.push_back(b::key("long", 8, b::text(std::string(500, 'x'))));
  keys.push_back(b::key("u64", 10, b::u64(~0ULL)));
  keys.push_back(b::key("i64", 11, b::u64(~0ULL)));
  keys.push_back(b::key("f64", 12, testing::le(-2.25)));
  const std::string inner = b::array(4, 2, b::u32(1) + b::u32(2));
  keys.push_back(b::key("nested", 9, b::array(9, 2, inner + inner)));
  const std::string file = b::file(keys, {{"w", kF32, {4}, filled(16)}});
  const TensorBundle bundle = read(file);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  const auto& metadata = bundle.metadata;
  for (const auto& [key, shown] :
       std::map<std::string, std::string>{{"k0", "255"},
                                          {"k1", "-2"},
                                          {"k4", "7"},
                                          {"k5", "-1"},
                                          {"real", "0.5"},
                                          {"yes", "true"},
                                          {"text", "line\\x0abreak"},
                                          {"long", "text of 500 bytes"},
                                          {"u64", "18446744073709551615"},
                                          {"i64", "-1"},
                                          {"f64", "-2.25"},
                                          {"nested", "2 values"}})
    EXPECT_EQ(metadata.at(key), shown) << key;
}

TEST_F(Gguf, AlignmentAndVersionsAreFollowed) {
  for (const std::uint32_t version : {2U, 3U})
    for (const std::uint32_t alignment : {1U, 8U, 64U, 4096U}) {
      const std::string file =
          b::file({b::key("general.alignment", 4, b::u32(alignment))},
                  {{"w", kF32, {3}, filled(12)}, {"v", kF32, {5}, filled(20)}}, alignment, version);
      const TensorBundle bundle = read(file);
      EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
      EXPECT_EQ(to_text(bundle.find("v")->bytes), filled(20));
    }
}

TEST_F(Gguf, TensorsInAnyOrderAndBytesBetweenThemComeBack) {
  std::string file = b::head(3, 0);
  file += b::info({"second", kF32, {4}, {}}, 128) + b::info({"first", kF32, {4}, {}}, 32) +
          b::info({"none", kF32, {0, 4}, {}}, 0);
  file = b::padded(std::move(file), 32) + filled(300);
  const TensorBundle bundle = read(file);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  EXPECT_EQ(bundle.tensors.size(), 3U);  // the container and two
  EXPECT_EQ(to_text(bundle.find("first")->bytes), filled(300).substr(32, 16));
}

TEST_F(Gguf, EqualTensorsShareTheirBytes) {
  const std::string file =
      b::file({}, {{"a", kF32, {4}, filled(16)}, {"b", kF32, {4}, filled(16)}});
  const TensorBundle bundle = read(file);
  EXPECT_EQ(bundle.find("a")->bytes.data(), bundle.find("b")->bytes.data());
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
}

TEST_F(Gguf, BlocksThatTheirValuesDoNotGiveStayAsTheyAre) {
  // Blocks of scale 1, whose largest integer is 127 or not.
  std::string good("\0\x3c", 2), odd = good;
  good += "\x7f" + std::string(31, '\x05');
  odd += std::string(32, '\x05');
  const std::string file =
      b::file({}, {{"good", kQ8_0, {32, 2}, good + good}, {"odd", kQ8_0, {32, 2}, good + odd}});
  bytes = to_bytes(file);
  const TensorBundle bundle = gguf::read_model(bytes, "x.gguf", true);
  EXPECT_EQ(bundle.find("good")->dtype, DType::kF32);
  EXPECT_EQ(bundle.find("odd")->dtype, DType::kU8);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  ASSERT_FALSE(bundle.notes.empty());
  EXPECT_NE(bundle.notes.back().find("no effect on 1 of 2 tensors of Q8_0"), std::string::npos);
}

TEST_F(Gguf, FilesAreToldByContentOrName) {
  const TempDir dir;
  // 123 tensors: the ninth byte is that of a safetensors header.
  std::vector<b::Tensor> tensors;
  for (int i = 0; i < 123; ++i)
    tensors.push_back({"t" + std::to_string(i), kF32, {4}, filled(16, i)});
  put_file(dir / "model", b::file({}, tensors));
  EXPECT_EQ(sniff(dir / "model"), FileKind::kUnknown);
  EXPECT_TRUE(gguf::is_model(dir / "model"));
  EXPECT_EQ(open_tensors(dir / "model").tensors.size(), 124U);
  GBC_EXPECT_ERROR(open_tensors(dir / "model", {.part = "x"}), Errc::kUsage,
                   "is a GGUF model, which has no parts");
  put_file(dir / "m.gguf", "not at all");
  GBC_EXPECT_ERROR(open_tensors(dir / "m.gguf"), Errc::kCorrupt, "does not begin with GGUF");
  put_file(dir / "m.gguf", "\x1f\x8b\x08 packed");
  GBC_EXPECT_ERROR(open_tensors(dir / "m.gguf"), Errc::kUnsupported, "gzip");
}

TEST_F(Gguf, TablesOfRotaryEmbeddingsAreNoWeights) {
  const TensorBundle bundle = read(b::file({}, {{"rope_freqs.weight", kF32, {8}, filled(32)},
                                                {"output_norm.weight", kF32, {8}, filled(32)}}));
  const TensorHints hints = gguf::hints(bundle);
  EXPECT_EQ(hints.size(), 1U);
  EXPECT_EQ(hints.at("rope_freqs.weight").kind, TensorHint::Kind::kExact);
}

TEST_F(Gguf, EveryCutIsRefused) {
  const std::string file = b::file({b::key("list", 9, b::array(8, 1, b::text("abc")))},
                                   {{"w", kF32, {4}, filled(16)}, {"v", kF32, {8}, filled(32)}});
  (void)read(file);
  for (std::size_t size = 0; size < file.size(); ++size) {
    bytes = to_bytes(file.substr(0, size));
    try {
      gguf::read_model(bytes, "x.gguf");
      ADD_FAILURE() << size;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::kTruncated || error.code() == Errc::kCorrupt) << size;
    }
  }
}

TEST_F(Gguf, ATensorOfUnknownTypeBehindTheEndOfTheFileIsEmpty) {
  const b::Tensor strange{"strange", kNew, {1ULL << 62, 8}, {}};
  const std::string empty = b::head(1, 0) + b::info(strange, 0);
  EXPECT_EQ(files_of(read(empty)), std::vector<std::string>{empty});
  refuse(b::head(1, 0) + b::info(strange, 32), Errc::kTruncated, "lies behind them");
}

TEST_F(Gguf, WrongHeadsAreRefused) {
  const std::vector<b::Tensor> one = {{"w", kF32, {4}, filled(16)}};
  refuse("", Errc::kTruncated, "is empty");
  refuse(b::file({}, one, 32, 1), Errc::kUnsupported, "versions 2 and 3 are read");
  refuse(b::file({}, one, 32, 4), Errc::kUnsupported, "version 4 of GGUF");
  refuse(b::file({}, one, 32, 3U << 24), Errc::kUnsupported, "big-endian");
  refuse(b::head(~0ULL, 0) + filled(100), Errc::kCorrupt, "tensors do not fit into it");
  refuse(b::head(1, 1ULL << 40) + filled(100), Errc::kCorrupt, "keys of metadata do not fit");
  refuse(b::file({b::key("", 4, b::u32(1))}, one), Errc::kCorrupt, "a key of its metadata");
  refuse(b::file({b::key("k", 4, b::u32(1)), b::key("k", 4, b::u32(1))}, one), Errc::kCorrupt,
         "the key k twice");
  refuse(b::file({b::key("k", 13, b::u32(1))}, one), Errc::kCorrupt, "unknown type 13");
  refuse(b::file({b::key("k", 8, b::u64(~0ULL))}, one), Errc::kTruncated, "ends at byte");
  refuse(b::file({b::key("k", 9, b::array(4, 1ULL << 62, ""))}, one), Errc::kCorrupt,
         "an array of 4611686018427387904 values");
  refuse(b::file({b::key("k", 9, b::array(8, 1ULL << 40, ""))}, one), Errc::kCorrupt,
         "an array of");
  std::string deep = b::array(4, 1, b::u32(1));
  for (int i = 0; i < 10; ++i) deep = b::array(9, 1, deep);
  refuse(b::file({b::key("k", 9, deep)}, one), Errc::kCorrupt, "arrays lie more than 8 deep");
  for (const std::uint32_t alignment : {0U, 24U, 1U << 21})
    refuse(b::file({b::key("general.alignment", 4, b::u32(alignment))}, one), Errc::kCorrupt,
           "a power of two up to");
  refuse(b::file({b::key("general.alignment", 8, b::text("32"))}, one), Errc::kCorrupt,
         "is no unsigned number");
}

TEST_F(Gguf, WrongTensorsAreRefused) {
  const auto two = [](const b::Tensor& a, std::uint64_t at, const b::Tensor& c,
                      std::uint64_t behind) {
    return b::padded(b::head(2, 0) + b::info(a, at) + b::info(c, behind), 32) + filled(256);
  };
  const b::Tensor w{"w", kF32, {16}, {}}, v{"v", kF32, {16}, {}};
  (void)read(two(w, 0, v, 64));
  refuse(two(w, 0, v, 32), Errc::kCorrupt, "tensors w and v overlap");
  refuse(two(w, 64, v, 64), Errc::kCorrupt, "overlap");
  refuse(two(w, 0, w, 64), Errc::kCorrupt, "holds tensor w twice");
  refuse(two(w, 0, v, 65), Errc::kCorrupt, "no multiple of 32");
  refuse(two(w, 0, v, 256), Errc::kTruncated, "tensor v lies behind them");
  refuse(two(w, 0, v, ~0ULL - 31), Errc::kTruncated, "lies behind them");
  refuse(two(w, 0, {"v", kF32, {1ULL << 62, 4}, {}}, 64), Errc::kLimit, "too large");
  refuse(two(w, 0, {"v", kF32, {~0ULL}, {}}, 64), Errc::kCorrupt, "a negative size");
  refuse(two(w, 0, {"v", kQ8_0, {33}, {}}, 64), Errc::kCorrupt, "a block of Q8_0 has 32");
  refuse(two(w, 0, {"v", kQ8_0, {}, {}}, 64), Errc::kCorrupt, "a block of Q8_0 has 32");
  refuse(two(w, 0, {"v", kF32, std::vector<std::uint64_t>(9, 1), {}}, 64), Errc::kCorrupt,
         "9 dimensions, at most 8");
  refuse(two(w, 0, {"", kF32, {4}, {}}, 64), Errc::kCorrupt, "an empty name");
  refuse(two(w, 0, {"a\nb", kF32, {4}, {}}, 64), Errc::kCorrupt, "a control character");
  refuse(two(w, 0, {std::string(600, 'n'), kF32, {4}, {}}, 64), Errc::kLimit, "at most 512");
  refuse(two(w, 0, {"gbz.container", kF32, {4}, {}}, 64), Errc::kUnsupported, "which is reserved");
}

}  // namespace
}  // namespace gbcompress
