#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "artifact/header/header_keys.h"
#include "artifact/header/text.h"
#include "base/byte_reader.h"
#include "base/digest.h"
#include "checkpoint/folder.h"
#include "checkpoint/posix.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kManifestMagic = "GBCM";
constexpr std::int64_t kManifestPreludeBytes = 8;  // magic, version
constexpr std::int64_t kDigestBytes = 32;
constexpr std::size_t kMaxFacts = 10'000;
constexpr std::size_t kMaxFactBytes = 1 << 20;
constexpr std::size_t kHexDigest = 64;

CheckpointFacts read_facts(CborReader& in) {
  const std::int64_t n = in.map();
  if (n > static_cast<std::int64_t>(kMaxFacts)) in.corrupt("too many facts");
  CheckpointFacts facts;
  for (std::int64_t i = 0; i < n; ++i) {
    std::string name = in.text();
    if (!is_tensor_name(name)) in.corrupt("a fact's name is not allowed");
    std::string value = in.text();
    if (value.size() > kMaxFactBytes) in.corrupt("a fact is too long");
    if (!facts.emplace(std::move(name), std::move(value)).second)
      in.corrupt("two facts of one name");
  }
  return facts;
}

ShardSeal read_seal(CborReader& in) {
  ShardSeal seal;
  Keys keys(in, "bd");
  while (const char key = keys.next())
    if (key == 'b')
      seal.bytes = in.integer();
    else
      seal.head_digest = in.text();
  keys.require("bd");
  if (seal.head_digest.size() != kHexDigest) in.corrupt("a digest of another length");
  return seal;
}

std::vector<ShardSeal> read_seals(CborReader& in) {
  const std::int64_t n = in.array();
  if (n < 1 || n > kMaxWorld) in.corrupt("a number of shards that is not possible");
  std::vector<ShardSeal> seals;
  for (std::int64_t i = 0; i < n; ++i) seals.push_back(read_seal(in));
  return seals;
}

}  // namespace

std::vector<std::byte> encode_manifest(const Manifest& manifest) {
  if (manifest.facts.size() > kMaxFacts)
    throw Error(Errc::kLimit,
                "a checkpoint cannot hold more than " + std::to_string(kMaxFacts) + " facts");
  for (const auto& [name, value] : manifest.facts) {
    if (!is_tensor_name(name) || !is_utf8(value))
      throw Error(Errc::kUsage, "the fact '" + printable(name.substr(0, 64)) +
                                    "' is not UTF-8, or its name has not 1 to 512 bytes without "
                                    "control characters");
    if (value.size() > kMaxFactBytes)
      throw Error(Errc::kLimit, "the fact " + printable(name) + " has more than " +
                                    std::to_string(kMaxFactBytes) + " bytes; store its digest");
  }
  nlohmann::json shards = nlohmann::json::array();
  for (const ShardSeal& seal : manifest.shards)
    shards.push_back({{"b", seal.bytes}, {"d", seal.head_digest}});
  nlohmann::json facts = nlohmann::json::object();
  for (const auto& [name, value] : manifest.facts) facts[name] = value;
  const std::vector<std::uint8_t> cbor = nlohmann::json::to_cbor(
      nlohmann::json{{"n", manifest.step}, {"f", std::move(facts)}, {"s", std::move(shards)}});
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<std::size_t>(kManifestPreludeBytes + kDigestBytes) + cbor.size());
  for (char c : kManifestMagic) append_number(bytes, c);
  append_number(bytes, kCheckpointVersion);
  const auto* p = reinterpret_cast<const std::byte*>(cbor.data());
  bytes.insert(bytes.end(), p, p + cbor.size());
  for (char c : sha256(bytes)) append_number(bytes, c);
  if (static_cast<std::int64_t>(bytes.size()) > kMaxManifestBytes)
    throw Error(Errc::kLimit, "the facts of a checkpoint have more than " +
                                  std::to_string(kMaxManifestBytes) +
                                  " bytes together; store digests instead of long values");
  return bytes;
}

Manifest read_manifest(const fs::path& path) {
  const std::string label = printable(path.string());
  const FileHandle file = open_file(path);
  const std::int64_t size = file_bytes(file, path);
  if (size > kMaxManifestBytes)
    throw Error(Errc::kLimit, label + " has " + std::to_string(size) + " bytes, at most " +
                                  std::to_string(kMaxManifestBytes) + " are read");
  if (size < kManifestPreludeBytes + kDigestBytes)
    throw Error(Errc::kTruncated, label + " has only " + std::to_string(size) + " bytes");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  read_all(file, 0, bytes, path);
  const auto content = std::span(bytes).first(static_cast<std::size_t>(size - kDigestBytes));
  const auto stored = std::span(bytes).last(kDigestBytes);
  if (sha256(content) !=
      std::string_view(reinterpret_cast<const char*>(stored.data()), stored.size()))
    throw Error(Errc::kCorrupt, label + " is damaged: its digest does not fit");
  ByteReader prelude(content, label);
  const auto magic = prelude.take(kManifestMagic.size());
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kManifestMagic)
    throw Error(Errc::kCorrupt, label + " is not the manifest of a checkpoint");
  if (const auto version = prelude.read<std::uint32_t>(); version != kCheckpointVersion)
    throw Error(Errc::kUnsupported, label + " has version " + std::to_string(version) +
                                        ", this gbcompress reads version " +
                                        std::to_string(kCheckpointVersion) +
                                        "; resume with the gbcompress that saved it");
  Manifest manifest;
  CborReader in(content.subspan(kManifestPreludeBytes), label);
  Keys keys(in, "nfs");
  while (const char key = keys.next()) switch (key) {
      case 'n':
        manifest.step = in.integer();
        break;
      case 'f':
        manifest.facts = read_facts(in);
        break;
      default:
        manifest.shards = read_seals(in);
    }
  keys.require("nfs");
  in.finish();
  if (manifest.step < 0 || manifest.step > kMaxStep) in.corrupt("a step that is not possible");
  manifest.identity = to_hex(sha256(bytes));
  return manifest;
}

}  // namespace gbcompress
