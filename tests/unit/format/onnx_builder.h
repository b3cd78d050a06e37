#pragma once
/// Small ONNX models, field by field, from onnx.proto alone.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace gbcompress::testing::onnx {

inline std::string varint(std::uint64_t value) {
  std::string text;
  for (; value > 127; value >>= 7) text += static_cast<char>(0x80 | (value & 127));
  return text + static_cast<char>(value);
}
inline std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
inline std::string bytes(int field, const std::string& content) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(content.size()) + content;
}
template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline std::string ramp(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(0.01F * static_cast<float>(i * 37 % 101) - 0.5F);
  return raw(values);
}

/// TensorProto without elements. @param type  TensorProto.DataType
inline std::string tensor_head(const std::string& name, int type,
                               const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += number(1, static_cast<std::uint64_t>(side));
  return text + number(2, static_cast<std::uint64_t>(type)) + bytes(8, name);
}
inline std::string tensor(const std::string& name, int type, const std::vector<std::int64_t>& shape,
                          const std::string& data) {
  return tensor_head(name, type, shape) + bytes(9, data);
}
/// Elements in the packed field `field`, as varints.
inline std::string varint_tensor(const std::string& name, int type,
                                 const std::vector<std::int64_t>& shape, int field,
                                 const std::vector<std::uint64_t>& values) {
  std::string data;
  for (const std::uint64_t value : values) data += varint(value);
  return tensor_head(name, type, shape) + bytes(field, data);
}
inline std::string external_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                   const std::string& location, const std::string& offset,
                                   const std::string& length) {
  const auto entry = [](const std::string& key, const std::string& value) {
    return bytes(13, bytes(1, key) + bytes(2, value));
  };
  std::string text = tensor_head(name, 1, shape) + entry("location", location);
  if (!offset.empty()) text += entry("offset", offset);
  if (!length.empty()) text += entry("length", length);
  return text + number(14, 1);
}
inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs,
                        const std::vector<std::string>& attributes = {},
                        const std::string& domain = "") {
  std::string text;
  for (const std::string& input : inputs) text += bytes(1, input);
  for (const std::string& output : outputs) text += bytes(2, output);
  text += bytes(4, op);
  for (const std::string& attribute : attributes) text += bytes(5, attribute);
  return domain.empty() ? text : text + bytes(7, domain);
}
inline std::string constant(const std::string& output, const std::string& tensor) {
  return node("Constant", {}, {output}, {bytes(1, "value") + bytes(5, tensor) + number(20, 4)});
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return bytes(1, name) + bytes(6, graph) + number(20, 5);
}
inline std::string graph(const std::vector<std::string>& nodes,
                         const std::vector<std::string>& initializers,
                         const std::vector<std::string>& outputs = {}) {
  std::string text;
  for (const std::string& each : nodes) text += bytes(1, each);
  text += bytes(2, "main");
  for (const std::string& each : initializers) text += bytes(5, each);
  for (const std::string& each : outputs) text += bytes(12, bytes(1, each));
  return text;
}
inline std::string model(const std::string& graph, const std::string& more = "") {
  return number(1, 8) + bytes(2, "test") + bytes(7, graph) +
         bytes(8, bytes(1, "") + number(2, 17)) + more;
}

}  // namespace gbcompress::testing::onnx
