#include "checkpoint/shard.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>

#include "artifact/header/header_keys.h"
#include "artifact/header/text.h"
#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/digest.h"
#include "checkpoint/posix.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kShardMagic = "GBCS";
constexpr std::int64_t kShardPreludeBytes =
    20;  // magic, version, bytes of the file, bytes of the table

struct Head {
  std::vector<std::byte> bytes;
  std::int64_t file_bytes = 0;
};

Head read_head(const fs::path& path) {
  const std::string label = printable(path.string());
  const FileHandle file = open_file(path);
  Head head;
  head.file_bytes = file_bytes(file, path);
  head.bytes.resize(kShardPreludeBytes);
  read_all(file, 0, head.bytes, path);
  ByteReader prelude(head.bytes, label);
  const auto magic = prelude.take(kShardMagic.size());
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kShardMagic)
    throw Error(Errc::kCorrupt, label + " is not a shard of a checkpoint");
  prelude.read<std::uint32_t>();  // the version is believed after the digest only
  const auto declared = prelude.read<std::uint64_t>();
  const std::int64_t table = prelude.read<std::uint32_t>();
  if (declared != static_cast<std::uint64_t>(head.file_bytes))
    throw Error(Errc::kTruncated, label + " has " + std::to_string(head.file_bytes) + " bytes, " +
                                      std::to_string(declared) + " were written");
  if (table > kMaxHeadBytes - kShardPreludeBytes || table > head.file_bytes - kShardPreludeBytes)
    throw Error(Errc::kLimit, label + " declares a table of " + std::to_string(table) +
                                  " bytes, which is too large");
  head.bytes.resize(static_cast<std::size_t>(kShardPreludeBytes + table));
  read_all(file, kShardPreludeBytes, std::span(head.bytes).subspan(kShardPreludeBytes), path);
  return head;
}

ShardEntry read_entry(CborReader& in) {
  ShardEntry entry;
  Keys keys(in, "nbx");
  while (const char key = keys.next()) switch (key) {
      case 'n':
        entry.name = in.text();
        break;
      case 'b':
        entry.bytes = in.integer();
        break;
      default:
        entry.xxh3 = in.unsigned_number();
    }
  keys.require("nbx");
  if (!is_tensor_name(entry.name)) in.corrupt("a section's name is not allowed");
  if (entry.bytes < 0) in.corrupt("a size below 0");
  return entry;
}

std::vector<ShardEntry> read_entries(CborReader& in) {
  const std::int64_t n = in.array();
  if (n > static_cast<std::int64_t>(kMaxSections)) in.corrupt("too many sections");
  std::vector<ShardEntry> entries;
  std::unordered_set<std::string> names;
  for (std::int64_t i = 0; i < n; ++i) {
    entries.push_back(read_entry(in));
    if (!names.insert(entries.back().name).second) in.corrupt("two sections of one name");
  }
  return entries;
}

}  // namespace

std::vector<std::byte> encode_shard_head(int rank, std::int64_t step,
                                         std::span<const CheckpointSection> sections) {
  if (sections.size() > kMaxSections)
    throw Error(Errc::kLimit, "a shard of " + std::to_string(sections.size()) +
                                  " sections is too large; at most " +
                                  std::to_string(kMaxSections) + " are allowed");
  nlohmann::json entries = nlohmann::json::array();
  std::unordered_set<std::string_view> names;
  std::int64_t content = 0;
  for (const CheckpointSection& section : sections) {
    if (!is_tensor_name(section.name))
      throw Error(Errc::kUsage, "'" + printable(section.name) +
                                    "' cannot be a section's name: 1 to 512 bytes of UTF-8 without "
                                    "control characters are allowed");
    if (!names.insert(section.name).second)
      throw Error(Errc::kUsage, "two sections are named " + printable(section.name));
    const auto bytes = static_cast<std::int64_t>(section.bytes.size());
    content = checked_add(content, bytes, "a shard");
    entries.push_back({{"n", section.name}, {"b", bytes}, {"x", xxh3_64(section.bytes)}});
  }
  const std::vector<std::uint8_t> table =
      nlohmann::json::to_cbor(nlohmann::json{{"r", rank}, {"n", step}, {"s", std::move(entries)}});
  const auto table_bytes = static_cast<std::int64_t>(table.size());
  if (table_bytes > kMaxHeadBytes - kShardPreludeBytes)
    throw Error(Errc::kLimit, "the names of a shard's sections are too long together");
  std::vector<std::byte> head;
  head.reserve(static_cast<std::size_t>(kShardPreludeBytes + table_bytes));
  for (char c : kShardMagic) append_number(head, c);
  append_number(head, kCheckpointVersion);
  append_number(head, static_cast<std::uint64_t>(kShardPreludeBytes + table_bytes + content));
  append_number(head, static_cast<std::uint32_t>(table_bytes));
  const auto* p = reinterpret_cast<const std::byte*>(table.data());
  head.insert(head.end(), p, p + table.size());
  return head;
}

void write_shard(const fs::path& path, std::span<const std::byte> head,
                 std::span<const CheckpointSection> sections) {
  FileHandle file = create_file(path);
  if (!lock_file(file, path)) fail_io(path, "cannot be locked", EWOULDBLOCK);
  write_all(file, head, path);
  for (const CheckpointSection& section : sections) write_all(file, section.bytes, path);
  finish_file(std::move(file), path);
}

ShardSeal read_shard_seal(const fs::path& path) {
  const Head head = read_head(path);
  return {.bytes = head.file_bytes, .head_digest = to_hex(sha256(head.bytes))};
}

std::vector<ShardEntry> read_shard_table(const fs::path& path, int rank, std::int64_t step,
                                         const ShardSeal& seal) {
  const std::string label = printable(path.string());
  const Head head = read_head(path);
  if (head.file_bytes != seal.bytes || to_hex(sha256(head.bytes)) != seal.head_digest)
    throw Error(Errc::kCorrupt, label + " is damaged: the manifest's digest does not fit");
  ByteReader prelude(head.bytes, label);
  prelude.take(kShardMagic.size());
  if (const auto version = prelude.read<std::uint32_t>(); version != kCheckpointVersion)
    throw Error(Errc::kUnsupported, label + " has version " + std::to_string(version) +
                                        ", this gbcompress reads version " +
                                        std::to_string(kCheckpointVersion));
  CborReader in(std::span(head.bytes).subspan(kShardPreludeBytes), label + ": table");
  std::int64_t of_rank = -1, of_step = -1;
  std::vector<ShardEntry> entries;
  Keys keys(in, "nrs");
  while (const char key = keys.next()) switch (key) {
      case 'n':
        of_step = in.integer();
        break;
      case 'r':
        of_rank = in.integer();
        break;
      default:
        entries = read_entries(in);
    }
  keys.require("nrs");
  in.finish();
  if (of_rank != rank || of_step != step) in.corrupt("it belongs to another rank or step");
  std::int64_t offset = static_cast<std::int64_t>(head.bytes.size());
  for (ShardEntry& entry : entries) {
    entry.offset = offset;
    offset = checked_add(offset, entry.bytes, "a shard");
  }
  if (offset != head.file_bytes)
    throw Error(Errc::kCorrupt, label + " has sections that do not fill it");
  return entries;
}

}  // namespace gbcompress
