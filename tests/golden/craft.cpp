#include "golden/craft.h"

#include "base/byte_reader.h"
#include "base/digest.h"
#include "gbcompress/artifact.h"

namespace gbcompress::craft {

using nlohmann::json;

Bytes to_bytes(const std::string& text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

Bytes file(const Bytes& header, const Bytes& sections, std::int64_t header_raw,
           std::uint32_t version) {
  Bytes bytes = to_bytes("GBZ1");
  append_number(bytes, version);
  append_number(bytes, static_cast<std::uint64_t>(24 + header.size() + sections.size() + 32));
  append_number(bytes, static_cast<std::uint32_t>(header.size()));
  append_number(bytes, static_cast<std::uint32_t>(
                           header_raw < 0 ? static_cast<std::int64_t>(header.size()) : header_raw));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), sections.begin(), sections.end());
  const Bytes digest = to_bytes(sha256(bytes));
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

Bytes file(const json& header, const Bytes& sections) {
  const auto cbor = json::to_cbor(header);
  return file(to_bytes({cbor.begin(), cbor.end()}), sections);
}

json plain_entry(const std::string& name, const Bytes& section) {
  return {{"n", name}, {"d", "U8"}, {"h", {section.size()}}, {"x", xxh3_64(section)}};
}

json linear_entry(const std::string& name, const Bytes& section) {
  return {{"n", name},
          {"h", {4, 4}},
          {"x", xxh3_64(section)},
          {"g", {{"i", "linear"}, {"m", {4, 4}}, {"u", {2}}, {"s", 0.5}}}};
}

Bytes linear_section() {
  const float scales[4] = {0.25f, 0.25f, 0.25f, 0.25f};
  const auto first = std::as_bytes(std::span(scales));
  Bytes bytes(first.begin(), first.end());
  for (int n = 0; n < (4 + 1) * 2 + 3; ++n) bytes.push_back(static_cast<std::byte>(7 * n));
  return bytes;
}

json header(std::int64_t output_bytes, std::vector<json> entries) {
  return {{"o", output_bytes}, {"t", std::move(entries)}};
}

Errc code_of(const Bytes& bytes) {
  try {
    ArtifactReader::from_bytes(bytes, "crafted.gbz").verify();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

}  // namespace gbcompress::craft
