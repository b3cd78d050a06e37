#include <algorithm>

#include "artifact/header/header.h"
#include "artifact/sections/varint.h"
#include "format/file_kind.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

void check_version(char digit, const std::string& label) {
  if (digit < '1' || digit > '9')
    throw Error(Errc::kCorrupt, label + " is damaged, or no .gbz file; copy it again");
  const auto version = static_cast<std::uint32_t>(digit - '0');
  if (version == kArtifactVersion) return;
  throw Error(Errc::kUnsupported,
              label + " has version " + digit + " of the format, this gbcompress reads version " +
                  std::to_string(kArtifactVersion) +
                  (version > kArtifactVersion ? "; upgrade gbcompress to read it"
                                              : "; compress the model again"));
}

}  // namespace

Prelude read_prelude(std::span<const std::byte> file, const ArtifactLimits& limits,
                     const std::string& label) {
  constexpr std::size_t kFamily = kMagic.size() - 1;
  const std::size_t n = std::min(file.size(), kFamily);
  if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(n),
                  reinterpret_cast<const char*>(file.data()))) {
    refuse_stand_in(file, label);
    throw Error(Errc::kCorrupt, label + " is damaged, or no .gbz file; copy it again");
  }
  ByteReader reader(file, label);
  reader.take(kFamily);
  check_version(reader.read<char>(), label);
  const std::int64_t declared = read_varint(reader, label);
  const auto there = static_cast<std::int64_t>(reader.remaining());
  if (declared > there)
    throw Error(Errc::kTruncated, label + " is damaged: it lacks " +
                                      std::to_string(declared - there) +
                                      " bytes at its end; copy it again");
  if (static_cast<std::int64_t>(file.size()) > limits.file_bytes)
    throw Error(Errc::kLimit, label + " has " + std::to_string(file.size()) + " bytes, at most " +
                                  std::to_string(limits.file_bytes) + " are read");
  Prelude prelude;
  prelude.end = static_cast<std::int64_t>(reader.position()) + declared;
  prelude.header_stored = read_varint(reader, label);
  prelude.header_raw = read_varint(reader, label);
  prelude.packed = prelude.header_raw > 0;
  if (!prelude.packed) prelude.header_raw = prelude.header_stored;
  prelude.header_offset = static_cast<std::int64_t>(reader.position());
  if (prelude.header_raw > limits.header_bytes)
    throw Error(Errc::kLimit, label + " declares a header of " +
                                  std::to_string(prelude.header_raw) + " bytes, at most " +
                                  std::to_string(limits.header_bytes) + " are read");
  if (prelude.packed && prelude.header_stored >= prelude.header_raw)
    throw Error(Errc::kCorrupt, label + " has a header that is no smaller packed than unpacked");
  if (prelude.header_stored > prelude.end - prelude.header_offset - kDigestBytes)
    throw Error(Errc::kCorrupt, label + " has a header that goes beyond its end");
  return prelude;
}

std::vector<std::byte> encode_prelude(std::int64_t header_stored, std::int64_t header_raw,
                                      std::int64_t content) {
  std::vector<std::byte> sizes, file;
  append_varint(sizes, header_stored);
  append_varint(sizes, header_raw);
  for (char c : kMagic) append_number(file, c);
  append_varint(file,
                static_cast<std::int64_t>(sizes.size()) + header_stored + content + kDigestBytes);
  file.insert(file.end(), sizes.begin(), sizes.end());
  return file;
}

}  // namespace gbcompress
