// ONNX files of strangers that ask for much more memory or time than they have bytes.
#include <sys/resource.h>

#include <ctime>
#include <set>

#include "format/container.h"
#include "format/onnx/model.h"
#include "format/onnx/open.h"
#include "format/payload.h"
#include "support/files.h"
#include "unit/format/bundle_files.h"
#include "unit/format/onnx_builder.h"

namespace gbcompress {
namespace {

namespace b = testing::onnx;
using testing::to_bytes;

/// By how many MiB a call raises the most memory that the process ever held.
template <typename Body>
long raised(Body body) {
  const auto most = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const long before = most();
  body();
  return most() - before;
}

/// Seconds of processor time.
template <typename Body>
double seconds(Body body) {
  const std::clock_t before = std::clock();
  body();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

std::string times(std::size_t count, const std::string& text) {
  std::string many;
  for (std::size_t i = 0; i < count; ++i) many += text;
  return many;
}

std::string small(const std::string& name) { return b::tensor(name, 1, {4}, b::ramp(4)); }

TEST(OnnxBounds, TensorsDoNotCopyTheirScope) {
  const std::string body = times(20'000, b::bytes(1, b::constant("w", small(""))));
  const std::string node = b::bytes(3, std::string(200'000, 'n')) +
                           b::node("If", {"c"}, {"y"}, {b::graph_attribute("then_branch", body)});
  const auto bytes = to_bytes(b::model(b::bytes(1, node)));
  EXPECT_LT(raised([&] { EXPECT_EQ(onnx::parse(bytes, "x").tensors.size(), 20'000U); }), 400);
}

TEST(OnnxBounds, LongNamesAreNotCopiedForEachTensor) {
  const std::string tensors = times(3'000, b::bytes(10, small("")));
  const std::string node =
      b::node("Constant", {}, {std::string(1'000'000, 'w')}, {b::bytes(1, "value") + tensors});
  const auto bytes = to_bytes(b::model(b::bytes(1, node)));
  EXPECT_LT(seconds([&] {
              const TensorBundle bundle = onnx::read_model(bytes, "x", {});
              EXPECT_EQ(bundle.tensors.size(), 3'001U);
              EXPECT_TRUE(bundle.find("tensor_17"));
            }),
            3);
}

TEST(OnnxBounds, AttributesAndSubgraphsAreCounted) {
  const std::string empty = b::bytes(5, "");
  for (const std::string& node :
       {times(onnx::kMaxNames / onnx::kNamesOfAttribute + 1, empty),
        b::bytes(5, b::bytes(1, "g") +
                        times(onnx::kMaxNames / onnx::kNamesOfGraph + 1, b::bytes(11, "")))}) {
    const auto bytes = to_bytes(b::model(b::bytes(1, node)));
    GBC_EXPECT_ERROR(onnx::parse(bytes, "x"), Errc::kLimit, "counted with its attributes");
  }
}

TEST(OnnxBounds, EqualNamesTakeLinearTime) {
  const std::string file = b::model(times(10'000, b::bytes(5, small("w"))));
  const auto bytes = to_bytes(file);
  EXPECT_LT(seconds([&] {
              const TensorBundle bundle = onnx::read_model(bytes, "x", {});
              EXPECT_EQ(testing::files_of(bundle), std::vector<std::string>{file});
              EXPECT_TRUE(bundle.find("w"));
              EXPECT_TRUE(bundle.find("w#10000"));
            }),
            2);
}

TEST(OnnxBounds, NumberedNamesAreUnique) {
  std::string tensors;
  for (const std::string& name :
       {std::string("w"), std::string("w#2"), std::string("w"), std::string("w#2"),
        std::string("w"), std::string(512, 'n'), std::string(512, 'n'), std::string("tensor_6"),
        std::string("a\nb"), std::string("gbz.container")})
    tensors += b::bytes(5, small(name));
  const std::string file = b::model(tensors);
  const auto bytes = to_bytes(file);
  const TensorBundle bundle = onnx::read_model(bytes, "x", {});
  std::set<std::string> names;
  for (const TensorEntry& tensor : bundle.tensors) names.insert(tensor.name);
  EXPECT_EQ(names,
            (std::set<std::string>{"gbz.container", std::string(512, 'n'), "tensor_6", "tensor_6#2",
                                   "tensor_8", "tensor_9", "w", "w#2", "w#2#2", "w#3", "w#4"}));
  EXPECT_EQ(testing::files_of(bundle), std::vector<std::string>{file});
}

TEST(OnnxBounds, OutputsOfMovingOperatorsDoNotCopyTheirSources) {
  std::string nodes, initializers;
  std::vector<std::string> inputs, outputs;
  for (int i = 0; i < 64; ++i) {
    inputs.push_back("w" + std::to_string(i));
    initializers += b::bytes(5, small(inputs.back()));
  }
  for (int i = 0; i < 500'000; ++i) outputs.push_back(std::to_string(i));
  nodes = b::bytes(1, b::node("Concat", inputs, {"all"})) +
          b::bytes(1, b::node("Split", {"all"}, outputs));
  const auto bytes = to_bytes(b::model(nodes + initializers));
  EXPECT_LT(raised([&] {
              const TensorHints hints = onnx::read_hints(bytes, "x", {});
              EXPECT_EQ(hints.at("w3").kind, TensorHint::Kind::kExact);
            }),
            200);
}

TEST(OnnxBounds, NamesOfOperatorsAreNotCopiedForEachTensor) {
  std::string initializers;
  std::vector<std::string> inputs;
  for (int i = 0; i < 2'000; ++i) {
    inputs.push_back("w" + std::to_string(i));
    initializers += b::bytes(5, small(inputs.back()));
  }
  const auto bytes = to_bytes(
      b::model(b::bytes(1, b::node(std::string(1'000'000, 'O'), inputs, {"y"})) + initializers));
  EXPECT_LT(raised([&] {
              EXPECT_EQ(onnx::read_hints(bytes, "x", {}).at("w3").consumers[0].size(), 128U);
            }),
            400);
}

TEST(OnnxBounds, ShapesOfTensorsThatStayAreNotMultiplied) {
  const std::int64_t most = std::int64_t{1} << 62;
  const std::string file = b::model(
      b::graph({b::node("MatMul", {"x", "a"}, {"y"}), b::node("Gather", {"b", "i"}, {"z"}),
                b::node("MatMul", {"x", "w"}, {"v"})},
               {b::tensor("a", 99, {most, most, 2}, "?"), b::tensor("b", 99, {-most, -most}, "?"),
                b::tensor("w", 1, {4, 4}, b::ramp(16))}));
  const auto bytes = to_bytes(file);
  EXPECT_EQ(onnx::read_hints(bytes, "x", {}).size(), 1U);
  // Bits that a number holds, and no seven more.
  const auto large = to_bytes(b::model(b::graph({}, {b::tensor("w", 21, {(1LL << 61) - 1}, "")})));
  GBC_EXPECT_ERROR(onnx::parse(large, "x"), Errc::kLimit, "too large");
}

TEST(OnnxBounds, VarintsOfElementsThatAreNoWholeBytesAreRefused) {
  const testing::Bytes elements(16);
  for (const DType dtype : {DType::kF4, DType::kF6E2M3, DType::kF6E3M2}) {
    GBC_EXPECT_ERROR(to_varints(elements, dtype), Errc::kCorrupt, "no whole bytes");
    GBC_EXPECT_ERROR(from_varints(elements, dtype, 16), Errc::kCorrupt, "no whole bytes");
    GBC_EXPECT_ERROR(payload_of({0, 0, PayloadEncoding::kVarint, {}}, elements, dtype, "x"),
                     Errc::kCorrupt, "no whole bytes");
  }
}

}  // namespace
}  // namespace gbcompress
