#include "fuzz/mutators.h"

#include <algorithm>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "artifact/header/header.h"
#include "artifact/sections/packing.h"
#include "base/byte_reader.h"
#include "base/digest.h"
#include "format/zip_archive.h"
#include "fuzz/target.h"
#include "gbcompress/atomic_file.h"
#include "gbcompress/error.h"
#include "golden/craft.h"
#include "unit/format/zip_builder.h"

namespace gbcompress::fuzz {
namespace {

constexpr std::size_t kRawEvery = 16;  // one mutation in so many leaves the checks to fail
constexpr std::size_t kLongestPart = 1 << 16;

Input as_input(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// The driver's mutation of a piece.
Bytes mutated(const Bytes& part) {
  Bytes room(std::max(kLongestPart, 2 * part.size()));
  std::copy(part.begin(), part.end(), room.begin());
  room.resize(
      LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(room.data()), part.size(), room.size()));
  return room;
}

/// What was built, where there is room for it; else the old input.
std::size_t put_back(const Bytes& built, std::uint8_t* data, std::size_t size, std::size_t most) {
  if (built.size() > most) return size;
  std::copy(built.begin(), built.end(), reinterpret_cast<std::byte*>(data));
  return built.size();
}

/// A part behind a draft, with the digest of both; without a draft, the part.
Bytes behind(Bytes draft, const Bytes& part) {
  if (draft.empty()) return part;
  draft.insert(draft.end(), part.begin(), part.end() - kDigestBytes);
  const std::string digest = sha256(draft);
  const auto stored = std::as_bytes(std::span(digest)).first(kDigestBytes);
  draft.insert(draft.end(), stored.begin(), stored.end());
  return draft;
}

}  // namespace

std::size_t mutate_artifact(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % kRawEvery == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    Bytes file(as_input(data, size).begin(), as_input(data, size).end()), draft;
    Prelude prelude = read_prelude(file, {.header_bytes = 1 << 18}, "x");
    if (prelude.end < static_cast<std::int64_t>(size) && seed % 3 != 0) {  // of layers the second
      draft.assign(file.begin(), file.begin() + prelude.end);
      file.erase(file.begin(), file.begin() + prelude.end);
      prelude = read_prelude(file, {.header_bytes = 1 << 18}, "x");
    }
    craft::Parts parts = craft::parts(file);
    if (prelude.packed)
      parts.header = unpack(parts.header, Packing::kZstd, prelude.header_raw, 1, "x");
    Bytes& part = seed / kRawEvery % 2 ? parts.header : parts.sections;
    part = mutated(part);
    return put_back(behind(draft, craft::file(parts.header, parts.sections)), data, size, most);
  } catch (const Error&) {  // not an artifact any more
    return LLVMFuzzerMutate(data, size, most);
  }
}

namespace {

/// The message with one of its length-delimited fields changed, down to `depth` messages inside of
/// it.
std::string with_field_changed(const std::string& message, unsigned& seed, int depth) {
  std::vector<std::pair<std::size_t, protozero::data_view>>
      fields;  // where each begins, and its content
  protozero::pbf_reader reader(message);
  while (reader.next()) {
    if (reader.wire_type() != protozero::pbf_wire_type::length_delimited) {
      reader.skip();
      continue;
    }
    const protozero::data_view view = reader.get_view();
    const auto content = static_cast<std::size_t>(view.data() - message.data());
    fields.emplace_back(content, view);
  }
  if (fields.empty() || depth == 0) return std::string(to_text(mutated(to_bytes(message))));
  const auto& [content, view] = fields[seed++ % fields.size()];
  std::string changed;
  try {
    changed = with_field_changed(std::string(view), seed, depth - 1);
  } catch (const protozero::exception&) {  // not a message
    changed = std::string(to_text(mutated(to_bytes(std::string_view(view.data(), view.size())))));
  }
  std::size_t head = content - 1;  // of the length
  while (head > 0 && (message[head - 1] & '\x80') != 0) --head;
  std::string built = message.substr(0, head);
  std::uint64_t length = changed.size();
  for (; length > 127; length >>= 7) built += static_cast<char>(0x80 | (length & 127));
  return built + static_cast<char>(length) + changed + message.substr(content + view.size());
}

}  // namespace

std::size_t mutate_proto(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % kRawEvery == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    unsigned choice = seed / kRawEvery;
    const std::string file(to_text(as_input(data, size)));
    return put_back(to_bytes(with_field_changed(file, choice, 1 + static_cast<int>(choice % 6))),
                    data, size, most);
  } catch (const protozero::exception&) {  // no message any more
    return LLVMFuzzerMutate(data, size, most);
  }
}

std::size_t mutate_zip(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % kRawEvery == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    const ZipArchive zip(as_input(data, size), "x");
    std::vector<testing::ZipEntry> entries;
    std::size_t pickle = 0;
    for (const auto& [name, entry] : zip.entries()) {
      if (name.ends_with(".pkl") || name.ends_with(".json")) pickle = entries.size();
      const auto content = zip.read(name);
      entries.push_back({name, std::string(to_text(content))});
    }
    if (entries.empty()) return LLVMFuzzerMutate(data, size, most);
    const unsigned choice = seed / kRawEvery;
    const std::size_t which = choice % 4 ? pickle : choice / 4 % entries.size();
    std::string& part = choice % 64 == 1 ? entries[which].name : entries[which].data;
    part = std::string(to_text(mutated(to_bytes(part))));
    if (entries[which].name.size() > 60'000) entries[which].name.resize(60'000);
    return put_back(to_bytes(testing::zip(entries, choice / 64 % 8 == 0)), data, size, most);
  } catch (const Error&) {  // not a zip any more
    return LLVMFuzzerMutate(data, size, most);
  }
}

std::size_t mutate_manifest(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  constexpr std::size_t kDigest = 32;
  if (seed % kRawEvery == 0 || size < kDigest) return LLVMFuzzerMutate(data, size, most);
  const Input content = as_input(data, size - kDigest);
  Bytes built = mutated({content.begin(), content.end()});
  for (const char c : sha256(built)) append_number(built, c);
  return put_back(built, data, size, most);
}

std::size_t mutate_shard(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  constexpr std::size_t kPrelude = 20, kSizeAt = 8, kTableAt = 16;  // checkpoints.md, "Shard"
  if (seed % kRawEvery == 0 || size < kPrelude) return LLVMFuzzerMutate(data, size, most);
  const Input all = as_input(data, size);
  ByteReader reader(all.subspan(kTableAt), "x");
  const std::size_t table = std::min<std::size_t>(reader.read<std::uint32_t>(), size - kPrelude);
  Bytes head(all.begin(), all.begin() + kPrelude);
  const auto begin = all.begin() + kPrelude;
  const Bytes changed = mutated({begin, begin + static_cast<std::ptrdiff_t>(table)});
  const auto new_table = static_cast<std::uint32_t>(changed.size());
  head.insert(head.end(), changed.begin(), changed.end());
  head.insert(head.end(), begin + static_cast<std::ptrdiff_t>(table), all.end());
  const std::uint64_t bytes = head.size();
  std::memcpy(head.data() + kSizeAt, &bytes, sizeof bytes);
  std::memcpy(head.data() + kTableAt, &new_table, sizeof new_table);
  return put_back(head, data, size, most);
}

}  // namespace gbcompress::fuzz
