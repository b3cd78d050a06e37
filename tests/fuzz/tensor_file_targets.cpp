// Files of tensors that other programs write.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "format/container.h"
#include "format/file_kind.h"
#include "format/gguf/open.h"
#include "format/onnx/open.h"
#include "format/onnx/view.h"
#include "format/payload.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/exported_program.h"
#include "format/torch/state_dict.h"
#include "fuzz/mutators.h"
#include "fuzz/target.h"
#include "unit/format/bundle_files.h"
#include "unit/format/gguf_builder.h"
#include "unit/format/onnx_builder.h"
#include "unit/format/pickle_builder.h"

namespace gbcompress::fuzz {
namespace {

namespace p = testing::pickle;

/// Reads every byte, so that the sanitizers see a span that reaches beyond its owner.
void touch(const TensorBundle& bundle) {
  volatile unsigned sum = 0;
  for (const TensorEntry& tensor : bundle.tensors)
    for (const std::byte byte : tensor.bytes) sum = sum + std::to_integer<unsigned>(byte);
}

void run_safetensors(Input input) {
  const auto file = SafetensorsFile::from_bytes(input, "x.safetensors");
  touch({.tensors = file.tensors()});
}

std::vector<Bytes> safetensors_seeds() {
  const auto file = [](const std::string& header, std::size_t data) {
    return to_bytes(testing::le(std::uint64_t{header.size()}) + header + std::string(data, 'x'));
  };
  return {
      file("{}", 0),
      file(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16),
      file(R"({"__metadata__":{"format":"pt","a":"\u00e9\n"},"a":{"dtype":"BF16","shape":[3],)"
           R"("data_offsets":[0,6]},"b":{"dtype":"I64","shape":[],"data_offsets":[6,14]}}   )",
           14),
      file(R"({"e":{"dtype":"U8","shape":[0,9],"data_offsets":[0,0]},)"
           R"("f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})",
           2),
      file(R"({"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,16]}})", 16),
  };
}

void run_state_dict(Input input) {
  touch(read_state_dict(input, "x.pt"));
  touch(read_state_dict(input, "x.pt", {.keep_all = true}));
}

std::string tensors() {
  return p::dict({p::text("fc.weight"), p::tensor("Float", "0", 4, 0, {2, 2}, {1, 2}),
                  p::text("fc.bias"), p::tensor("Half", "1", 3, 1, {2}, {1}), p::text("n"),
                  p::number(7)});
}
std::string checkpoint() {
  return p::dict({p::text("epoch"), "K\7", p::text("state_dict"), tensors(), p::text("optimizer"),
                  p::dict({p::text("state"), "}", p::text("lr"), "G" + std::string(8, '\1')}),
                  p::text("list"), "](K\1K\2e", p::text("none"), "N"});
}
const std::vector<std::string> kStorages = {std::string(16, 'a'), "bbcceeff"};

std::vector<Bytes> state_dict_seeds() {
  return {to_bytes(p::saved(tensors(), kStorages)), to_bytes(p::saved(checkpoint(), kStorages)),
          to_bytes(p::saved(p::ordered_dict() + "(" + p::text("w") +
                                p::tensor("Byte", "0", 16, 0, {4, 4}, {4, 1}) + "u",
                            kStorages)),
          to_bytes(testing::zip({{"archive/data.pkl", p::program(tensors())},
                                 {"archive/data/0", kStorages[0]},
                                 {"archive/data/1", kStorages[1]}},
                                true, "a comment"))};
}

std::vector<Bytes> legacy_seeds() {
  const std::string one = p::dict({p::text("w"), p::tensor("Short", "0", 8, 0, {2, 4}, {4, 1})});
  return {to_bytes(p::old_saved(one, {std::string(16, 'q')}, 2)),
          to_bytes(p::old_saved(p::dict({p::text("state_dict"), one, p::text("epoch"), "K\3"}),
                                {std::string(16, 'q')}, 2))};
}

void run_exported(Input input) { touch(read_exported_program(input, "x.pt2")); }

std::vector<Bytes> exported_seeds() {
  const std::string config =
      R"({"config":{"fc.weight":{"path_name":"weight_0","is_param":true,"use_pickle":false,)"
      R"("tensor_meta":{"dtype":1,"layout":7,"sizes":[{"as_int":2},{"as_int":3}],)"
      R"("requires_grad":false,"device":{"type":"cpu","index":null},)"
      R"("strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0}}}}})";
  return {to_bytes(testing::zip({{"m/archive_format", "pt2"},
                                 {"m/models/model.json", "{}"},
                                 {"m/data/weights/weight_0", "abcdef"},
                                 {"m/data/weights/model_weights_config.json", config}})),
          to_bytes(testing::zip({{"m/archive_format", "pt2"},
                                 {"m/data/weights/model.pt", p::saved(tensors(), kStorages)}}))};
}

namespace b = testing::onnx;

/// Every file that is accepted comes back from its container, byte for byte.
void comes_back(const TensorBundle& bundle, Input input) {
  if (testing::files_of(bundle).at(0) != to_text(input))
    throw std::logic_error("a model's file came back with other bytes");
}

void run_onnx(Input input) {
  constexpr std::array<std::byte, 256> beside{};
  const auto external = [&](const std::string&) { return std::span<const std::byte>(beside); };
  const TensorBundle bundle = onnx::read_model(input, "x.onnx", external);
  touch(bundle);
  (void)onnx::read_hints(input, "x.onnx", external);
  for (const onnx::ViewedUse& use : onnx::view_graph(input, "x.onnx", external))
    if (!bundle.find(use.tensor) || (use.payload && use.payload->end() > input.size()))
      throw std::logic_error("a node takes a weight that the file does not have");
  comes_back(bundle, input);
  // Integers that stand for real numbers come back from these.
  comes_back(onnx::read_model(input, "x.onnx", external, true), input);
}

std::vector<Bytes> onnx_seeds() {
  const std::string weight = b::tensor("w", 1, {4, 4}, b::ramp(16));
  const std::string inner = b::graph({b::constant("w", weight)}, {}, {"w"});
  const std::string perm = b::bytes(1, "perm") + b::bytes(8, b::varint(1) + b::varint(0));
  return {
      to_bytes(b::model(b::graph(
          {b::node("Transpose", {"w"}, {"t"}, {perm}), b::node("MatMul", {"x", "t"}, {"y"})},
          {weight}, {"y"}))),
      to_bytes(b::model(b::graph({b::node("If", {"c"}, {"y"},
                                          {b::graph_attribute("then_branch", inner),
                                           b::graph_attribute("else_branch", inner)})},
                                 {weight}),
                        b::bytes(25, b::bytes(1, "f") + b::bytes(7, b::constant("v", weight))))),
      to_bytes(b::model(b::graph(
          {b::node("Conv", {"x", "k"}, {"c"}),
           b::node("BatchNormalization", {"c", "g", "g", "g", "g"}, {"n"}),
           b::node("LSTM", {"x", "k", "k", "g"}, {"l"}), b::node("Gather", {"w", "i"}, {"e"})},
          {b::tensor("k", 1, {4, 1, 2, 2}, b::ramp(16)), b::tensor("g", 1, {4}, b::ramp(4)),
           weight}))),
      to_bytes(b::model(b::graph(
          {b::node("DequantizeLinear", {"q", "s", "z"}, {"f"}),
           b::node("MatMul", {"x", "f"}, {"y"}), b::node("MatMulInteger", {"x", "p"}, {"n"})},
          {b::tensor("q", 3, {32, 4}, std::string(128, 'q')),
           b::tensor("s", 1, {4}, b::ramp(200).substr(320, 16)), b::tensor("z", 3, {4}, "abcd"),
           b::tensor("p", 2, {8, 8}, std::string(64, '\xee'))}))),
      to_bytes(b::model(
          b::graph({}, {b::varint_tensor("h", 10, {8}, 5, {0x3c00, 0xbc00, 1, 2, 3, 4, 5, 6}),
                        b::varint_tensor("i", 7, {9}, 7, {1, 2, 3, ~0ULL, 5, 6, 7, 8, 9})}))),
      to_bytes(b::model(b::graph({}, {b::external_tensor("e", {4, 4}, "d/x", "16", "64"),
                                      b::external_tensor("e", {4, 4}, "d/x", "96", "")})))};
}

void run_gguf(Input input) {
  const TensorBundle bundle = gguf::read_model(input, "x.gguf");
  touch(bundle);
  (void)gguf::hints(bundle);
  comes_back(bundle, input);
  // Blocks that stand for real numbers come back from these.
  const TensorBundle real = gguf::read_model(input, "x.gguf", true);
  touch(real);
  comes_back(real, input);
}

std::vector<Bytes> gguf_seeds() {
  namespace g = testing::gguf;
  const std::string row(68, 'q');
  return {
      to_bytes(g::file({g::key("general.architecture", 8, g::text("llama")),
                        g::key("general.alignment", 4, g::u32(64)),
                        g::key("split.count", 2, std::string(2, '\1')),
                        g::key("tokens", 9, g::array(8, 2, g::text("a") + g::text("bc"))),
                        g::key("nested", 9, g::array(9, 1, g::array(12, 1, g::u64(7))))},
                       {{"token_embd.weight", 8, {64, 2}, row + row},
                        {"rope_freqs.weight", 0, {4}, std::string(16, 'f')},
                        {"half", 1, {6, 2}, std::string(24, 'h')}},
                       64)),
      to_bytes(g::file({},
                       {{"a", 12, {256, 2}, std::string(288, 'k')},
                        {"b", 99, {3}, std::string(40, '?')},
                        {"c", 30, {2, 2}, std::string(8, 'b')},
                        {"d", 27, {}, std::string(8, 'i')}},
                       32, 2)),
      to_bytes(g::head(~0ULL, 1ULL << 60)),
      to_bytes(g::head(1, 0) + g::info({"w", 0, {1ULL << 62, 8}, {}}, 0)),
  };
}

/// Fills a hole with elements of every type.
void fill(const Hole& hole) {
  constexpr std::array<float, 64> values = {1, -1, 1e30F};
  for (int dtype = 0; dtype <= static_cast<int>(DType::kF4); ++dtype) try {
      (void)payload_of(hole, std::as_bytes(std::span(values)), static_cast<DType>(dtype), "x");
    } catch (const Error&) {  // of a type that the encoding does not take
    }
}

/// A container of three tensors: its holes are filled, and lengths follow those that grow.
void run_container(Input input) {
  Container container = Container::decode(input, 3, "x");
  if (container.encode().size() > input.size()) throw std::logic_error("a container grew");
  for (ContainerFile& file : container.files) {
    std::vector<std::int64_t> more(file.holes.size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      fill(file.holes[i]);
      if (file.holes[i].encoding != PayloadEncoding::kVarint) continue;
      (void)payload_size(file, file.holes[i], "x");
      more[i] = 200;
    }
    fit_lengths(file, more, "x");
  }
}

std::vector<Bytes> container_seeds() {
  const Container one{
      "onnx",
      {{"",
        {{1, 6, PayloadEncoding::kVarint, {2, 5}}, {0, 3, PayloadEncoding::kBytes, {}}},
        to_bytes("x\x3a\x05\x08\x2a\x03" + std::string(8, 'e'))},
       {"d/x", {{2, 0, PayloadEncoding::kBytes, {}}}, {}}}};
  const Hole affine{0, 1, PayloadEncoding::kAffine, {}, {DType::kU8, 2, {0.5F, 2}, {128, 3}}};
  const Container two{"gguf",
                      {{"", {{1, 1, PayloadEncoding::kQ8_0, {}}, affine}, to_bytes("abc")}}};
  return {one.encode(), two.encode()};
}

}  // namespace

const std::vector<Target> tensor_file_targets = {
    {"safetensors", run_safetensors, safetensors_seeds},
    {"state_dict", run_state_dict, state_dict_seeds, mutate_zip},
    {"legacy_state_dict", run_state_dict, legacy_seeds},
    {"exported_program", run_exported, exported_seeds, mutate_zip},
    {"onnx", run_onnx, onnx_seeds, mutate_proto},
    {"gguf", run_gguf, gguf_seeds, mutate_gguf},
    {"container", run_container, container_seeds},
};

}  // namespace gbcompress::fuzz
