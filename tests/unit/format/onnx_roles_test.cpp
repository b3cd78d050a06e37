// What the graph of an ONNX model says about its weights.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "format/onnx/open.h"
#include "format/tensor_hint.h"
#include "support/files.h"
#include "unit/format/onnx_builder.h"

namespace gbcompress {
namespace {

namespace b = testing::onnx;
using Kind = TensorHint::Kind;
using testing::to_bytes;

TensorHints hints(const std::vector<std::string>& nodes, const std::vector<std::string>& tensors,
                  const std::string& functions = "") {
  const testing::Bytes bytes = to_bytes(b::model(b::graph(nodes, tensors, {"y"}), functions));
  return onnx::read_hints(bytes, "x.onnx", {});
}

std::string values(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
  return b::tensor(name, 1, shape, b::ramp(count));
}

std::string numbers(const std::string& name, const std::vector<float>& of) {
  return b::tensor(name, 1, {static_cast<std::int64_t>(of.size())}, b::raw(of));
}

std::string whole(const std::string& name, std::uint64_t value) {
  return b::bytes(1, name) + b::number(3, value) + b::number(20, 2);
}

/// Of the domain "local".
std::string function(const std::string& name, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs,
                     const std::vector<std::string>& nodes) {
  std::string text = b::bytes(1, name) + b::bytes(10, "local");
  for (const std::string& input : inputs) text += b::bytes(4, input);
  for (const std::string& output : outputs) text += b::bytes(5, output);
  for (const std::string& node : nodes) text += b::bytes(7, node);
  return b::bytes(25, text);
}

TEST(OnnxRoles, AnOperatorOfAnotherDomainIsNotOnnxs) {
  const TensorHints found = hints(
      {b::node("Conv", {"x", "own"}, {"y1"}, {}, "my.domain"),
       b::node("FusedConv", {"x", "fused"}, {"y2"}, {}, "com.microsoft"),
       b::node("Conv", {"x", "named"}, {"y3"}, {}, "ai.onnx")},
      {values("own", {4, 3, 3, 3}), values("fused", {4, 3, 3, 3}), values("named", {4, 3, 3, 3})});
  EXPECT_EQ(found.at("own").kind, Kind::kExact);
  EXPECT_EQ(found.at("fused").kind, Kind::kWeight);
  EXPECT_EQ(found.at("named").kind, Kind::kWeight);
}

TEST(OnnxRoles, AFunctionTellsWhatItsInputsAre) {
  const std::string functions =
      function("Layer", {"a", "w", "c"}, {"out"},
               {b::node("MatMul", {"a", "w"}, {"m"}), b::node("Add", {"m", "c"}, {"out"})}) +
      function("Turn", {"w"}, {"t"}, {b::node("Transpose", {"w"}, {"t"})}) +
      function("Twice", {"w"}, {"t"}, {b::node("Turn", {"w"}, {"t"}, {}, "local")});
  const TensorHints found = hints(
      {b::node("Layer", {"x", "w", "bias"}, {"y1"}, {}, "local"),
       b::node("Twice", {"turned"}, {"t"}, {}, "local"), b::node("MatMul", {"y1", "t"}, {"y2"}),
       b::node("Layer", {"x", "other"}, {"y3"}, {}, "elsewhere"),
       b::node("MatMul", {"a", "outer"}, {"y4"})},
      {values("w", {8, 8}), values("bias", {8}), values("turned", {8, 8}), values("other", {8, 8}),
       values("outer", {8, 8})},
      functions);
  EXPECT_EQ(found.at("w").kind, Kind::kWeight);
  EXPECT_EQ(found.at("w").consumers, std::vector<std::string>{"MatMul"});
  EXPECT_EQ(found.at("bias").kind, Kind::kShort);
  EXPECT_EQ(found.at("turned").kind, Kind::kWeight);
  EXPECT_EQ(found.at("other").kind, Kind::kExact);
  EXPECT_EQ(found.at("outer").kind, Kind::kWeight);
}

TEST(OnnxRoles, FunctionsThatCallThemselvesEnd) {
  const std::string endless = function(
      "Loop", {"w"}, {"t"},
      {b::node("Loop", {"w"}, {"s"}, {}, "local"), b::node("Loop", {"w"}, {"t"}, {}, "local")});
  const TensorHints found =
      hints({b::node("Loop", {"w"}, {"y"}, {}, "local")}, {values("w", {8, 8})}, endless);
  EXPECT_EQ(found.at("w").kind, Kind::kUnknown);
}

TEST(OnnxRoles, WeightsOfAnExpressionOfConstantsAreToldByTheirElements) {
  const TensorHints found = hints(
      {b::node("ReduceL2", {"normed"}, {"n"}), b::node("Div", {"normed", "n"}, {"unit"}),
       b::node("Mul", {"unit", "gain"}, {"w1"}), b::node("MatMul", {"x", "w1"}, {"y1"}),
       b::node("MatMul", {"down", "up"}, {"low"}), b::node("Add", {"base", "low"}, {"w2"}),
       b::node("Transpose", {"w2"}, {"w3"}), b::node("MatMul", {"y1", "w3"}, {"y2"}),
       b::node("Gather", {"stack", "place"}, {"w4"}), b::node("MatMul", {"y2", "w4"}, {"y3"}),
       // Of another operand, an unknown operator, and no product.
       b::node("Mul", {"scaled", "x"}, {"w5"}), b::node("MatMul", {"x", "w5"}, {"y4"}),
       b::node("Odd", {"odd"}, {"w6"}, {}, "my.domain"), b::node("MatMul", {"x", "w6"}, {"y5"}),
       b::node("Mul", {"grid", "gain"}, {"g"}), b::node("Pow", {"g", "x"}, {"y6"})},
      {values("normed", {8, 8}), values("gain", {8}), values("base", {8, 8}),
       values("down", {8, 2}), values("up", {2, 8}), values("stack", {3, 8, 8}),
       values("place", {1}), values("scaled", {8, 8}), values("odd", {8, 8}),
       values("grid", {8, 8})});
  for (const char* name : {"normed", "base", "down", "up", "stack"}) {
    EXPECT_EQ(found.at(name).kind, Kind::kUnknown) << name;
    EXPECT_EQ(found.at(name).consumers, std::vector<std::string>{"MatMul"}) << name;
  }
  EXPECT_EQ(found.at("gain").kind, Kind::kExact);  // of two uses the strictest
  EXPECT_EQ(found.at("scaled").kind, Kind::kExact);
  EXPECT_EQ(found.at("odd").kind, Kind::kExact);
  EXPECT_EQ(found.at("grid").kind, Kind::kExact);
}

TEST(OnnxRoles, ATableThatIsReadAtConstantPlacesIsAWeight) {
  const TensorHints found =
      hints({b::node("Gather", {"table", "places"}, {"p"}), b::node("Add", {"x", "p"}, {"y"})},
            {values("table", {64, 32}), values("places", {16})});
  EXPECT_EQ(found.at("table").kind, Kind::kWeight);
}

std::vector<std::string> norm(const std::string& from) {
  return {b::node("BatchNormalization", {from, "g", "h", "m", "v"}, {"y"})};
}

std::vector<std::string> with_norm(std::vector<std::string> more) {
  more.insert(more.end(), {numbers("g", {1, -2, 0, 4}), numbers("h", {1, 1, 1, 2}),
                           numbers("m", {1, 1, 1, 2}), numbers("v", {1, 4, 1, 0.25F})});
  return more;
}

void expect_scales(const std::vector<float>& scales) {
  const std::vector<float> wanted = {1, 1, 0, 8};
  ASSERT_EQ(scales.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(scales[i], wanted[i], 1e-3) << i;
}

TEST(OnnxRoles, ANormBehindAWeightScalesItsRows) {
  const std::vector<std::string> tensors =
      with_norm({values("w", {4, 3, 3, 3}), values("add", {4, 1, 1}), values("q", {4, 16})});
  std::vector<std::string> nodes = norm("c");
  nodes.push_back(b::node("Conv", {"x", "w"}, {"c"}));
  expect_scales(hints(nodes, tensors).at("w").row_scales);
  nodes.push_back(b::node("Sin", {"c"}, {"z"}));  // sees the output before the norm
  EXPECT_TRUE(hints(nodes, tensors).at("w").row_scales.empty());
  nodes = norm("a");
  nodes.push_back(b::node("Conv", {"x", "w"}, {"c"}));
  nodes.push_back(b::node("Add", {"c", "add"}, {"a"}));
  expect_scales(hints(nodes, tensors).at("w").row_scales);
  nodes = norm("c");
  nodes.push_back(b::node("Gemm", {"x", "q"}, {"c"}, {whole("transB", 1)}));
  expect_scales(hints(nodes, tensors).at("q").row_scales);
}

TEST(OnnxRoles, ANormScalesNoRowsOfInputs) {
  std::vector<std::string> nodes = norm("c");
  nodes.push_back(b::node("MatMul", {"x", "w"}, {"c"}));
  EXPECT_TRUE(hints(nodes, with_norm({values("w", {4, 4})})).at("w").row_scales.empty());
}

TEST(OnnxRoles, AKernelOverAnImageHasInputsThatResembleTheirNeighbors) {
  const TensorHints found = hints(
      {b::node("Conv", {"x", "first"}, {"c1"}), b::node("Relu", {"c1"}, {"r"}),
       b::node("MaxPool", {"r"}, {"p"}), b::node("Conv", {"p", "second"}, {"c2"}),
       b::node("Concat", {"p", "c2"}, {"j"}), b::node("Conv", {"j", "third"}, {"c3"}),
       b::node("Conv", {"p", "point"}, {"c4"}), b::node("Conv", {"s", "line"}, {"c5"}),
       b::node("ConvTranspose", {"p", "up"}, {"c6"}), b::node("Conv", {"p", "shared"}, {"c7"}),
       b::node("Conv", {"x", "shared"}, {"c8"})},
      {values("first", {4, 3, 3, 5}), values("second", {4, 4, 3, 3}), values("third", {4, 8, 3, 3}),
       values("point", {4, 4, 1, 1}), values("line", {4, 4, 5, 1}), values("up", {4, 4, 3, 3}),
       values("shared", {4, 4, 3, 3})});
  const auto kernel = [&](const char* name) { return found.at(name).inputs.kernel; };
  EXPECT_EQ(kernel("first"), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(kernel("second"), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(kernel("point"), (std::vector<std::int64_t>{1, 1}));
  for (const char* name : {"line", "up"}) EXPECT_TRUE(kernel(name).empty()) << name;
  EXPECT_TRUE(found.at("second").inputs.positive);
  for (const char* name : {"first", "third", "shared"})
    EXPECT_FALSE(found.at(name).inputs.positive) << name;
}

}  // namespace
}  // namespace gbcompress
