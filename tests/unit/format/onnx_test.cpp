#include <algorithm>

#include "format/container.h"
#include "format/onnx/model.h"
#include "format/onnx/open.h"
#include "format/onnx/view.h"
#include "format/tensor_hint.h"
#include "support/files.h"
#include "unit/format/bundle_files.h"
#include "unit/format/onnx_builder.h"

namespace gbcompress {
namespace {

namespace b = testing::onnx;
using testing::files_of;
using testing::put_file;
using testing::TempDir;
using testing::to_bytes;
using testing::to_text;

struct Onnx : ::testing::Test {
  TensorBundle read(const std::string& file) {
    bytes = to_bytes(file);
    return onnx::read_model(bytes, "x.onnx", [](const std::string&) -> std::span<const std::byte> {
      throw Error(Errc::kNotFound, "no external files");
    });
  }
  TensorHints hints(const std::string& file) {
    bytes = to_bytes(file);
    return onnx::read_hints(bytes, "x.onnx", {});
  }
  testing::Bytes bytes;
};

TEST_F(Onnx, TensorsOfEveryFieldComeBack) {
  const std::vector<std::string> tensors = {
      b::tensor("raw", 1, {4, 8}, b::ramp(32)),
      b::tensor_head("floats", 1, {4, 4}) + b::bytes(4, b::ramp(16)),
      b::tensor_head("doubles", 11, {4}) + b::bytes(10, b::raw(std::vector<double>{1, 2, 3, -4})),
      b::varint_tensor("halves", 10, {10}, 5,
                       {0x3c00, 0xbc00, 1, 0, 0x7bff, 0x8000, 7, 8, 9, 0x4000}),
      b::varint_tensor("whole", 7, {9}, 7, {1, 2, 3, ~0ULL, 5, 1ULL << 40, 7, 8, ~0ULL - 9}),
      b::varint_tensor("small", 3, {64}, 5, std::vector<std::uint64_t>(64, ~0ULL)),
      b::tensor("nibbles", 22, {129}, std::string(65, 'n')),
      b::tensor("eighths", 17, {8, 8}, std::string(64, 'e'))};
  const std::string file =
      b::model(b::graph({}, tensors), b::bytes(99, "unknown") + b::number(98, 7));
  const TensorBundle bundle = read(file);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  ASSERT_EQ(bundle.tensors.size(), tensors.size() + 1);
  EXPECT_EQ(to_text(bundle.find("raw")->bytes), b::ramp(32));
  EXPECT_EQ(bundle.find("raw")->shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(
      to_text(bundle.find("halves")->bytes),
      b::raw(std::vector<std::uint16_t>{0x3c00, 0xbc00, 1, 0, 0x7bff, 0x8000, 7, 8, 9, 0x4000}));
  EXPECT_EQ(to_text(bundle.find("whole")->bytes),
            b::raw(std::vector<std::int64_t>{1, 2, 3, -1, 5, std::int64_t{1} << 40, 7, 8, -10}));
  EXPECT_EQ(to_text(bundle.find("small")->bytes), std::string(64, '\xff'));
  EXPECT_EQ(bundle.find("nibbles")->dtype, DType::kU8);
  EXPECT_EQ(bundle.find("nibbles")->shape, std::vector<std::int64_t>{65});
  EXPECT_EQ(bundle.find("eighths")->dtype, DType::kF8E4M3);
}

TEST_F(Onnx, ConstantsOfSubgraphsAndFunctionsHaveUniqueNames) {
  const std::string inner =
      b::graph({b::constant("w", b::tensor("", 1, {4, 4}, b::ramp(16)))}, {}, {"w"});
  const std::string outer = b::graph({b::node("If", {"c"}, {"y"},
                                              {b::graph_attribute("then_branch", inner),
                                               b::graph_attribute("else_branch", inner)})},
                                     {b::tensor("w", 1, {8, 2}, b::ramp(16))});
  const std::string function =
      b::bytes(1, "f") + b::bytes(7, b::constant("w", b::tensor("t", 1, {16}, b::ramp(16))));
  const std::string file = b::model(outer, b::bytes(25, function));
  const TensorBundle bundle = read(file);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
  std::vector<std::string> names;
  for (const TensorEntry& tensor : bundle.tensors) names.push_back(tensor.name);
  EXPECT_EQ(names.size(), 5U);
  for (const char* name : {"w", "y.then_branch/w", "y.else_branch/w", "f/w"})
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
}

TEST_F(Onnx, WhatIsNoTensorOfBytesStaysInTheContainer) {
  const std::vector<std::string> tensors = {
      b::tensor("w", 1, {4, 4}, b::ramp(16)), b::tensor("shape", 7, {2}, std::string(16, 's')),
      b::tensor_head("text", 8, {1}) + b::bytes(6, "words"),
      b::tensor_head("pieces", 1, {8}) + b::bytes(4, b::ramp(4)) + b::bytes(4, b::ramp(4)),
      // A number that takes a byte more than it needs.
      b::tensor_head("long", 10, {8}) +
          b::bytes(5, "\x81\x80" + std::string(1, '\0') + std::string(7, '\1')),
      b::tensor("empty", 1, {0}, "")};
  const std::string sparse = b::bytes(15, b::bytes(1, b::tensor("v", 1, {4}, b::ramp(4))));
  const std::string file = b::model(b::graph({}, tensors) + sparse);
  const TensorBundle bundle = read(file);
  EXPECT_EQ(bundle.tensors.size(), 2U);
  EXPECT_EQ(files_of(bundle), std::vector<std::string>{file});
}

TEST_F(Onnx, TheGraphTellsWeights) {
  const auto values = [](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
    return b::tensor(name, 1, shape, b::ramp(count));
  };
  const std::string perm =
      b::bytes(1, "perm") + b::bytes(8, b::varint(1) + b::varint(0)) + b::number(20, 7);
  const TensorHints found = hints(b::model(b::graph(
      {b::node("Transpose", {"turned"}, {"t"}, {perm}), b::node("MatMul", {"x", "t"}, {"y1"}),
       b::node("Conv", {"x", "kernel", "bias"}, {"y2"}),
       b::node("BatchNormalization", {"y2", "g", "h", "m", "v"}, {"y3"}),
       b::node("LSTM", {"x", "gates", "again", "gb"}, {"y4"}),
       b::node("Gather", {"words", "i"}, {"y5"}), b::node("Mul", {"x", "anchors"}, {"y6"}),
       b::node("Add", {"y1", "add"}, {"y7"}), b::node("Strange", {"odd"}, {"y8"}, {}, "my.domain"),
       b::node("Gather", {"lookup", "i"}, {"y9"})},
      {values("turned", {8, 16}), values("kernel", {4, 3, 3, 3}), values("bias", {4}),
       values("g", {4}), values("h", {4}), values("m", {4}),
       b::tensor("v", 1, {4}, b::raw(std::vector<float>{1, 2, 3, 4})), values("gates", {1, 32, 8}),
       values("again", {1, 32, 8}), values("gb", {1, 64}), values("words", {100, 16}),
       values("anchors", {1, 50, 2}), values("add", {1, 8}), values("odd", {8, 8}),
       values("lookup", {16}), values("unused", {8, 8})},
      {"y1"})));
  for (const char* name : {"turned", "kernel", "gates", "again", "words"})
    EXPECT_EQ(found.at(name).kind, TensorHint::Kind::kWeight) << name;
  for (const char* name : {"bias", "g", "h", "m", "v", "gb", "add"})
    EXPECT_EQ(found.at(name).kind, TensorHint::Kind::kShort) << name;
  for (const char* name : {"anchors", "odd", "lookup", "unused"})
    EXPECT_EQ(found.at(name).kind, TensorHint::Kind::kExact) << name;
  EXPECT_EQ(found.at("gates").rows, 32);
  EXPECT_EQ(found.at("gates").cols, 8);
  EXPECT_FALSE(found.at("gates").row_steps);
  EXPECT_EQ(found.at("kernel").consumers, std::vector<std::string>{"Conv"});
  EXPECT_EQ(found.at("turned").consumers, std::vector<std::string>{"MatMul"});
}

TEST_F(Onnx, OfSeveralUsesTheStrictestCounts) {
  const TensorHints found = hints(
      b::model(b::graph({b::node("MatMul", {"x", "w"}, {"y"}), b::node("Pow", {"w", "x"}, {"z"})},
                        {b::tensor("w", 1, {8, 8}, b::ramp(64))})));
  EXPECT_EQ(found.at("w").kind, TensorHint::Kind::kExact);
  EXPECT_EQ(found.at("w").consumers, (std::vector<std::string>{"MatMul", "Pow"}));
}

TEST_F(Onnx, TheGraphTellsWhichNodesTakeWeights) {
  const auto values = [](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
    return b::tensor(name, 1, shape, b::ramp(count));
  };
  const std::string perm = b::bytes(1, "perm") + b::bytes(8, b::varint(1) + b::varint(0));
  const std::string then_branch = b::graph(
      {b::constant("k", values("", {4, 3, 3, 3})), b::node("Conv", {"x", "k"}, {"c"})}, {}, {"c"});
  const std::string else_branch = b::graph({b::node("MatMul", {"x", "w"}, {"d"})}, {}, {"d"});
  const std::string function = b::bytes(1, "f") +
                               b::bytes(7, b::constant("v", values("", {8, 8}))) +
                               b::bytes(7, b::node("MatMul", {"a", "v"}, {"o"}));
  const std::string file = b::model(
      b::graph({b::node("If", {"q"}, {"y"},
                        {b::graph_attribute("then_branch", then_branch),
                         b::graph_attribute("else_branch", else_branch)}),
                b::node("Transpose", {"w"}, {"t"}, {perm}), b::node("Gemm", {"x", "t"}, {"z"}),
                b::node("Concat", {"w", "u"}, {"wu"}), b::node("MatMul", {"x", "wu"}, {"m"}),
                b::node("MatMul", {"x", "s"}, {"n"}), b::node("Pow", {"s", "x"}, {"p"})},
               {values("w", {8, 8}), values("u", {8, 8}), values("s", {8, 8})}),
      b::bytes(25, function));
  bytes = to_bytes(file);
  const onnx::GraphView view = onnx::view_graph(bytes, "x.onnx", {});
  ASSERT_EQ(view.size(), 3U);
  EXPECT_EQ(view[0].tensor, "k");
  EXPECT_EQ(view[0].graph, (onnx::GraphPath{{0, 0}}));
  EXPECT_EQ(view[0].node, 1U);
  EXPECT_EQ(view[0].input, 1U);
  EXPECT_EQ(view[1].tensor, "w");
  EXPECT_EQ(view[1].graph, (onnx::GraphPath{{0, 1}}));
  EXPECT_FALSE(view[1].transposed);
  EXPECT_EQ(view[1].rows, 8);
  EXPECT_EQ(view[2].tensor, "w");
  EXPECT_TRUE(view[2].graph.empty());
  EXPECT_EQ(view[2].node, 2U);
  EXPECT_TRUE(view[2].transposed);
  for (const onnx::ViewedUse& use : view) {
    ASSERT_TRUE(use.payload);
    const std::string elements = use.tensor == "k" ? b::ramp(108) : b::ramp(64);
    EXPECT_EQ(file.substr(use.payload->offset, use.payload->size), elements) << use.tensor;
  }
}

TEST_F(Onnx, ExternalDataComeBack) {
  TempDir dir;
  const std::string data = "head" + b::ramp(32) + "pad" + b::ramp(16) + "tail";
  put_file(dir / "w.data", data);
  const std::string file =
      b::model(b::graph({}, {b::external_tensor("a", {4, 8}, "w.data", "4", "128"),
                             b::external_tensor("b", {16}, "w.data", "135", "64"),
                             b::external_tensor("same", {8, 4}, "w.data", "4", "128")}));
  put_file(dir / "m.onnx", file);
  const TensorBundle bundle = onnx::open_model(dir / "m.onnx");
  EXPECT_EQ(files_of(bundle), (std::vector<std::string>{file, data}));
  EXPECT_EQ(bundle.files.size(), 2U);
  EXPECT_EQ(bundle.file_bytes, static_cast<std::int64_t>(file.size() + data.size()));
  EXPECT_EQ(to_text(bundle.find("b")->bytes), b::ramp(16));
}

TEST_F(Onnx, ExternalDataWithoutALengthFillTheShape) {
  TempDir dir;
  const std::string data = "01234567" + b::ramp(16) + b::ramp(8);
  put_file(dir / "w.data", data);
  // The places descend, and two tensors share one.
  const std::string file =
      b::model(b::graph({}, {b::external_tensor("c", {8}, "w.data", "72", "0"),
                             b::external_tensor("a", {16}, "w.data", "8", "0"),
                             b::external_tensor("b", {16}, "w.data", "8", "")}));
  put_file(dir / "m.onnx", file);
  {
    const TensorBundle bundle = onnx::open_model(dir / "m.onnx");
    EXPECT_EQ(files_of(bundle), (std::vector<std::string>{file, data}));
    EXPECT_EQ(to_text(bundle.find("c")->bytes), b::ramp(8));
  }
  put_file(dir / "w.data", data.substr(0, data.size() - 1));
  GBC_EXPECT_ERROR(onnx::open_model(dir / "m.onnx"), Errc::kTruncated, "which has 103");
}

TEST_F(Onnx, WrongExternalDataAreNamed) {
  TempDir dir;
  put_file(dir / "short.data", "0123");
  const auto open = [&](const std::string& location, const std::string& offset,
                        const std::string& length = "64") {
    put_file(dir / "m.onnx",
             b::model(b::graph({}, {b::external_tensor("w", {16}, location, offset, length)})));
    return onnx::open_model(dir / "m.onnx");
  };
  GBC_EXPECT_ERROR(open("../x", "0"), Errc::kUnsupported, "leaves the model's folder");
  GBC_EXPECT_ERROR(open("/etc/passwd", "0"), Errc::kUnsupported, "leaves the model's folder");
  GBC_EXPECT_ERROR(open("gone.data", "0"), Errc::kNotFound, "gone.data");
  GBC_EXPECT_ERROR(open("short.data", "0"), Errc::kTruncated, "which has 4");
  GBC_EXPECT_ERROR(open("short.data", "18446744073709551615"), Errc::kTruncated, "which has 4");
  GBC_EXPECT_ERROR(open("short.data", "x"), Errc::kCorrupt, "no number");
  GBC_EXPECT_ERROR(open("short.data", "0", "4"), Errc::kCorrupt, "requires 64");
  std::filesystem::create_symlink("/etc/passwd", dir / "link.data");
  GBC_EXPECT_ERROR(open("link.data", "0"), Errc::kUnsupported, "a link that leaves");
}

TEST_F(Onnx, DamageIsNamed) {
  const std::string good = b::model(b::graph({}, {b::tensor("w", 1, {4, 4}, b::ramp(16))}));
  GBC_EXPECT_ERROR(read(good.substr(0, good.size() / 2)), Errc::kCorrupt, "damaged");
  GBC_EXPECT_ERROR(read(b::model(b::graph({}, {b::tensor("w", 1, {4, 5}, b::ramp(16))}))),
                   Errc::kCorrupt, "has 64 bytes, and its shape requires 80");
  GBC_EXPECT_ERROR(read(b::model(b::graph({}, {b::varint_tensor("w", 7, {9}, 7, {1})}))),
                   Errc::kCorrupt, "has 1 values, and its shape requires 9");
  GBC_EXPECT_ERROR(read(b::model(b::graph({}, {b::tensor("w", 1, {-1}, "")}))), Errc::kCorrupt,
                   "negative");
  GBC_EXPECT_ERROR(read(b::model(b::graph({}, {b::tensor("w", 1, {1LL << 40, 1LL << 40}, "")}))),
                   Errc::kLimit, "too large");
  GBC_EXPECT_ERROR(read(b::number(1, 8)), Errc::kCorrupt, "no graph");
  GBC_EXPECT_ERROR(read(b::model(b::graph({}, {}))), Errc::kUnsupported, "no weights");
  GBC_EXPECT_ERROR(
      read(b::model(b::graph({b::node("Add", {"b"}, {"a"}), b::node("Add", {"a"}, {"b"})}, {}))),
      Errc::kCorrupt, "cycle");
  std::string deep = b::graph({}, {});
  for (int i = 0; i < 70; ++i)
    deep = b::graph({b::node("If", {}, {}, {b::graph_attribute("g", deep)})}, {});
  GBC_EXPECT_ERROR(read(b::model(deep)), Errc::kLimit, "64 deep");
}

TEST(Container, LengthsFollowLongerVarints) {
  // A message of 126 bytes in one of 128: both get longer than a byte can say.
  const std::string rest(123, 'r');
  const std::string inner = b::bytes(5, "\1\2\3") + rest, whole = "x" + b::bytes(7, inner) + "end";
  ASSERT_EQ(inner.size(), 128U);
  const std::string skeleton = whole.substr(0, 1 + 3 + 2) + whole.substr(1 + 3 + 2 + 3);
  ContainerFile file{"", {{0, 6, PayloadEncoding::kVarint, {2, 5}}}, to_bytes(skeleton)};
  EXPECT_EQ(payload_size(file, file.holes[0], "x"), 3U);
  const std::int64_t more = 200;
  fit_lengths(file, {&more, 1}, "x");
  const std::string data(203, 'd');
  const std::string made = to_text(std::span(file.skeleton).first(file.holes[0].before)) + data +
                           to_text(std::span(file.skeleton).subspan(file.holes[0].before));
  EXPECT_EQ(made, "x" + b::bytes(7, b::bytes(5, data) + rest) + "end");
}

TEST(Container, WhatNoWriterMakesIsRefused) {
  Container container{
      "onnx",
      {{"", {{1, 2, PayloadEncoding::kBytes, {}}}, to_bytes("abcd")}, {"d/x", {}, to_bytes("e")}}};
  const auto bytes = container.encode();
  EXPECT_EQ(Container::decode(bytes, 2, "x").files[1].name, "d/x");
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(Container::decode(std::span(bytes).first(n), 2, "x"), Error) << n;
  const auto decode = [&](const Container& wrong) {
    return Container::decode(wrong.encode(), 2, "x");
  };
  container.files[1].name = "../x";
  GBC_EXPECT_ERROR(decode(container), Errc::kCorrupt, "not allowed");
  container.files[1].name = "d";
  container.files[1].holes = {{1, 0, PayloadEncoding::kBytes, {}}};
  GBC_EXPECT_ERROR(decode(container), Errc::kCorrupt, "two places");
  container.files[1].holes = {{2, 0, PayloadEncoding::kBytes, {}}};
  GBC_EXPECT_ERROR(decode(container), Errc::kCorrupt, "index");
  container.files[1].holes = {{0, 9, PayloadEncoding::kBytes, {}}};
  GBC_EXPECT_ERROR(decode(container), Errc::kCorrupt, "behind the end");
}

}  // namespace
}  // namespace gbcompress
