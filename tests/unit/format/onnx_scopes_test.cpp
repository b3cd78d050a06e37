// Names of ONNX graphs that lie in others, and data beside the model.
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

std::string square(const std::string& name) { return b::tensor(name, 1, {8, 8}, b::ramp(64)); }
std::string input(const std::string& name) { return b::bytes(11, b::bytes(1, name)); }

TensorHints hints(const std::string& file) {
  const auto bytes = to_bytes(file);
  return onnx::read_hints(bytes, "x.onnx", {});
}

TEST(OnnxScopes, AnInputOfABodyHidesAnOuterValue) {
  // The body's input has the name of what the loop makes: no cycle.
  const std::string body = input("i") + input("c") + input("y") + input("w") +
                           b::graph({b::node("MatMul", {"y", "w"}, {"y2"})}, {}, {"c", "y2"});
  const TensorHints found = hints(b::model(
      b::graph({b::node("Loop", {"n", "c0", "x"}, {"y"}, {b::graph_attribute("body", body)}),
                b::node("MatMul", {"y", "v"}, {"z"})},
               {square("w"), square("v")})));
  EXPECT_EQ(found.at("v").kind, TensorHint::Kind::kWeight);
  // Nothing takes the outer one.
  EXPECT_EQ(found.at("w").kind, TensorHint::Kind::kExact);
  EXPECT_TRUE(found.at("w").consumers.empty());
}

TEST(OnnxScopes, AValueOfABodyHidesAnOuterConstant) {
  const std::string body =
      input("s") +
      b::graph({b::node("Relu", {"s"}, {"w"}), b::node("MatMul", {"x", "w"}, {"t"})}, {}, {"t"});
  const TensorHints found = hints(b::model(b::graph(
      {b::node("Scan", {"s0"}, {"y"}, {b::graph_attribute("body", body)})}, {square("w")})));
  EXPECT_EQ(found.at("w").kind, TensorHint::Kind::kExact);
  EXPECT_TRUE(found.at("w").consumers.empty());
}

TEST(OnnxScopes, HiddenIntegersStandForNoRealValues) {
  const std::string body =
      input("q") + b::graph({b::node("DequantizeLinear", {"q", "s"}, {"f"})}, {}, {"f"});
  const std::string file = b::model(
      b::graph({b::node("Scan", {"s0"}, {"y"}, {b::graph_attribute("body", body)})},
               {b::tensor("q", 3, {64, 4}, std::string(256, 'q')),
                b::tensor("s", 1, {1}, b::ramp(1)), b::tensor("two", 1, {4}, b::ramp(4))}));
  const auto bytes = to_bytes(file);
  const TensorBundle bundle = onnx::read_model(bytes, "x.onnx", {}, true);
  EXPECT_EQ(bundle.find("q")->dtype, DType::kI8);
}

TEST(OnnxScopes, BodiesOfLoopAndScanHaveWeights) {
  for (const char* op : {"Loop", "Scan"}) {
    const std::string body =
        input("i") + input("c") + input("s") +
        b::graph({b::constant("k", square("")), b::node("MatMul", {"s", "k"}, {"t"}),
                  b::node("Gemm", {"t", "own"}, {"u"}), b::node("MatMul", {"u", "outer"}, {"v"})},
                 {square("own")}, {"c", "v"});
    const std::string file = b::model(
        b::graph({b::node(op, {"n", "c0", "x"}, {"y"}, {b::graph_attribute("body", body)})},
                 {square("outer"), b::tensor("k", 1, {4, 16}, b::ramp(64))}, {"y"}));
    const auto bytes = to_bytes(file);
    const TensorHints found = onnx::read_hints(bytes, "x.onnx", {});
    for (const char* name : {"y.body/k", "own", "outer"})
      EXPECT_EQ(found.at(name).kind, TensorHint::Kind::kWeight) << op << " " << name;
    EXPECT_EQ(found.at("k").kind, TensorHint::Kind::kExact);
    EXPECT_EQ(onnx::view_graph(bytes, "x.onnx", {}).size(), 3U);
    EXPECT_EQ(files_of(onnx::read_model(bytes, "x.onnx", {})), std::vector<std::string>{file});
  }
}

TEST(OnnxScopes, ACycleInASubgraphIsRefused) {
  const std::string branch =
      b::graph({b::node("Add", {"p"}, {"q"}), b::node("Neg", {"q"}, {"p"})}, {square("w")}, {"p"});
  GBC_EXPECT_ERROR(
      hints(b::model(b::graph(
          {b::node("If", {"c"}, {"y"}, {b::graph_attribute("then_branch", branch)})}, {}))),
      Errc::kCorrupt, "form a cycle, through node");
  // One through what a branch takes.
  const std::string taking = b::graph({b::node("Neg", {"z"}, {"p"})}, {}, {"p"});
  GBC_EXPECT_ERROR(hints(b::model(b::graph(
                       {b::node("If", {"c"}, {"y"}, {b::graph_attribute("then_branch", taking)}),
                        b::node("Neg", {"y"}, {"z"})},
                       {square("w")}))),
                   Errc::kCorrupt, "through node If");
}

/// Opens a model with these messages in its graph and in itself.
struct OnnxBeside : ::testing::Test {
  TensorBundle open(const std::string& in_graph, const std::string& in_model = "") {
    file = b::model(b::graph({}, {square("w")}) + in_graph, in_model);
    put_file(dir / "m.onnx", file);
    return onnx::open_model(dir / "m.onnx");
  }
  static std::string outside(const std::string& name, const std::string& location) {
    return b::external_tensor(name, {16}, location, "", "");
  }
  TempDir dir;
  std::string file;
};

TEST_F(OnnxBeside, FilesOfTensorsThatAreNotCodedAreCarried) {
  put_file(dir / "n.data", "some bytes that nothing reads");
  const auto stays = [](int type, const std::vector<std::int64_t>& shape) {
    return b::tensor_head("s", type, shape) +
           b::bytes(13, b::bytes(1, "location") + b::bytes(2, "n.data")) + b::number(14, 1);
  };
  const std::string plain = stays(1, {4});
  const std::string sparse = b::bytes(1, stays(1, {4})) + b::bytes(2, stays(7, {4}));
  const std::string attribute = b::bytes(1, "sparse_value") + b::bytes(22, sparse);
  const std::string training = b::bytes(2, b::bytes(5, plain));
  const std::string deep = b::bytes(
      1, b::bytes(1, b::node("If", {}, {"y"}, {b::graph_attribute("g", b::bytes(5, plain))})));
  const std::string function =
      b::bytes(1, "f") + b::bytes(11, b::bytes(1, "a") + b::bytes(5, plain));
  const std::pair<std::string, std::string> cases[] = {
      {b::bytes(5, stays(27, {4})), ""},  // a type of later versions
      {b::bytes(5, stays(1, std::vector<std::int64_t>(9, 1))), ""},
      {b::bytes(15, sparse), ""},
      {b::bytes(1, b::node("Constant", {}, {"c"}, {attribute})), ""},
      {"", b::bytes(20, training)},
      {"", b::bytes(20, deep)},
      {"", b::bytes(25, function)}};
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const TensorBundle bundle = open(cases[i].first, cases[i].second);
    EXPECT_EQ(files_of(bundle), (std::vector<std::string>{file, "some bytes that nothing reads"}))
        << i;
    EXPECT_EQ(bundle.tensors.size(), 2U) << i;
  }
  std::filesystem::remove(dir / "n.data");
  for (std::size_t i = 0; i < std::size(cases); ++i)
    GBC_EXPECT_ERROR(open(cases[i].first, cases[i].second), Errc::kNotFound, "n.data");
}

TEST_F(OnnxBeside, APathMayBeginWithADot) {
  const std::string data = b::ramp(16) + "rest";
  put_file(dir / "e.data", data);
  {  // a file that is mapped is not written again
    const TensorBundle bundle =
        open(b::bytes(5, outside("a", "./e.data")) + b::bytes(5, outside("b", "e.data")));
    EXPECT_EQ(files_of(bundle), (std::vector<std::string>{file, data}));
    EXPECT_EQ(to_text(bundle.find("a")->bytes), b::ramp(16));
    EXPECT_EQ(bundle.files.size(), 2U);
  }
  for (const char* wrong : {"./../e.data", ".", "./", "/e.data", "d/../e.data"})
    GBC_EXPECT_ERROR(open(b::bytes(5, outside("a", wrong))), Errc::kUnsupported, "leaves");
}

TEST_F(OnnxBeside, DataMayBeFarBehindTheEndOfAnOnnxFile) {
  constexpr std::int64_t kElements = 640 << 20;  // of 2.5 GiB
  put_file(dir / "e.data", "");
  std::filesystem::resize_file(dir / "e.data", 4 * kElements + 64);  // takes no place on the disk
  const auto hints = [&](std::int64_t offset) {
    const std::string last = b::external_tensor("b", {16}, "e.data", std::to_string(offset), "64");
    put_file(
        dir / "m.onnx",
        b::model(b::graph({}, {b::external_tensor("a", {kElements}, "e.data", "0", ""), last})));
    return onnx::open_hints(dir / "m.onnx");
  };
  EXPECT_EQ(hints(4 * kElements).size(), 2U);
  GBC_EXPECT_ERROR(hints(4 * kElements + 1), Errc::kTruncated,
                   "ends at byte 2684354625 of e.data, which has 2684354624");
}

TEST_F(OnnxBeside, NamesThatNoContainerHoldsAreRefused) {
  for (const std::string& name : {std::string("a\nb"), std::string("\xff"), std::string(5000, 'n')})
    GBC_EXPECT_ERROR(open(b::bytes(5, outside("a", name))), Errc::kUnsupported, "rename it");
  std::string many;
  for (std::size_t i = 0; i < kMaxContainerFiles; ++i)
    many += b::bytes(5, outside("a", std::to_string(i)));
  const auto bytes = to_bytes(b::model(many));
  const std::string data = b::ramp(16);
  GBC_EXPECT_ERROR(
      onnx::read_model(bytes, "x",
                       [&](const std::string&) { return std::as_bytes(std::span(data)); }),
      Errc::kUnsupported, "in more than 9999 files");
}

}  // namespace
}  // namespace gbcompress
