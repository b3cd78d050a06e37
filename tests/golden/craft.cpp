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

Bytes join(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes varint(std::uint64_t value) {
  Bytes bytes;
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 128));
  bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes around(const Bytes& body, const std::string& magic) {
  Bytes bytes = to_bytes(magic);
  for (const Bytes& part : {varint(body.size() + 16), body})
    bytes.insert(bytes.end(), part.begin(), part.end());
  const Bytes digest = to_bytes(sha256(bytes).substr(0, 16));
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

Bytes file(const Bytes& header, const Bytes& sections, std::uint64_t header_raw,
           const std::string& magic) {
  Bytes body;
  for (const Bytes& part : {varint(header.size()), varint(header_raw), header, sections})
    body.insert(body.end(), part.begin(), part.end());
  return around(body, magic);
}

Parts parts(const Bytes& file) {
  std::size_t at = 4;
  const auto number = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(file[at++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  number();
  const auto stored = static_cast<std::ptrdiff_t>(number());
  const std::uint64_t raw = number();
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at);
  return {Bytes(begin, begin + stored), Bytes(begin + stored, file.end() - 16), raw};
}

Bytes file(const json& header, const Bytes& sections) {
  const auto cbor = json::to_cbor(header);
  return file(to_bytes({cbor.begin(), cbor.end()}), sections);
}

json plain_entry(const std::string& name, const Bytes& section) {
  return {{"n", name}, {"d", "U8"}, {"h", {section.size()}}};
}

json linear_entry(const std::string& name) {
  return {
      {"n", name}, {"h", {4, 4}}, {"g", {{"i", "linear"}, {"m", {4, 4}}, {"u", {2}}, {"s", 0.5}}}};
}

Bytes linear_section() {
  const float scales[4] = {0.25f, 0.25f, 0.25f, 0.25f};
  const auto first = std::as_bytes(std::span(scales));
  Bytes bytes(first.begin(), first.end());
  for (int n = 0; n < (4 + 1) * 2 + 3; ++n) bytes.push_back(static_cast<std::byte>(7 * n));
  return bytes;
}

json header(std::vector<json> entries) { return {{"t", std::move(entries)}}; }

Errc code_of(const Bytes& bytes) {
  try {
    ArtifactReader::from_bytes(bytes, "crafted.gbz").verify();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

}  // namespace gbcompress::craft
