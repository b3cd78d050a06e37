#include "format/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "base/byte_reader.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr std::uint64_t kMaxEntries = 4'000'000;

std::uint32_t word(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void ZipArchive::corrupt(const std::string& what) const {
  throw Error(Errc::kCorrupt, label_ + ": zip " + what);
}

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string label)
    : bytes_(bytes), label_(std::move(label)) {
  // The end record is the last thing but for a comment of up to 65,535 bytes.
  std::size_t end = bytes.size();
  for (std::size_t back = kEndBytes; back <= std::min(bytes.size(), kEndBytes + 0xffff); ++back) {
    const std::size_t at = bytes.size() - back;
    if (word(bytes, at) != kEnd || (word(bytes, at + 18) >> 16) != back - kEndBytes) continue;
    end = at;
    break;
  }
  if (end == bytes.size())
    throw Error(Errc::kTruncated, label_ +
                                      " lacks the directory at the end of a zip file; it is "
                                      "not one, or was cut off");
  ByteReader record(bytes.subspan(end + 4), label_);
  const auto disks = record.read<std::uint32_t>();
  record.read<std::uint16_t>();
  std::uint64_t count = record.read<std::uint16_t>();
  std::uint64_t size = record.read<std::uint32_t>(), offset = record.read<std::uint32_t>();
  if (disks != 0) throw Error(Errc::kUnsupported, label_ + " is one part of a zip of several");
  std::uint64_t directory_end = end;
  if (end >= kLocatorBytes && word(bytes, end - kLocatorBytes) == kLocator64) {
    ByteReader locator(bytes.subspan(end - kLocatorBytes + 8, 8), label_);
    const auto at = locator.read<std::uint64_t>();
    if (at > end - kLocatorBytes || end - kLocatorBytes - at < kEnd64Bytes ||
        word(bytes, at) != kEnd64)
      corrupt("has a broken 64-bit end record");
    ByteReader wide(bytes.subspan(at + 32, 24), label_);
    count = wide.read<std::uint64_t>();
    size = wide.read<std::uint64_t>();
    offset = wide.read<std::uint64_t>();
    directory_end = at;
  }
  if (offset > directory_end || size != directory_end - offset)
    corrupt("directory does not end where its end record begins");
  read_directory(offset, size, count);
}

void ZipArchive::read_directory(std::uint64_t offset, std::uint64_t size, std::uint64_t count) {
  if (count > kMaxEntries)
    throw Error(Errc::kLimit, label_ + " holds more than 4 million zip entries");
  directory_ = offset;
  ByteReader reader(bytes_.subspan(offset, size), label_ + ": zip directory");
  for (std::uint64_t i = 0; i < count; ++i) {
    if (reader.read<std::uint32_t>() != kCentral) corrupt("directory has a broken entry");
    reader.take(4);
    Entry entry;
    entry.flags = reader.read<std::uint16_t>();
    entry.method = reader.read<std::uint16_t>();
    reader.take(4);
    entry.crc = reader.read<std::uint32_t>();
    std::uint64_t packed = reader.read<std::uint32_t>();
    entry.size = reader.read<std::uint32_t>();
    const auto name_bytes = reader.read<std::uint16_t>();
    const auto extra_bytes = reader.read<std::uint16_t>();
    const auto comment_bytes = reader.read<std::uint16_t>();
    reader.take(8);
    entry.header = reader.read<std::uint32_t>();
    const std::string name(as_text(reader.take(name_bytes)));
    ByteReader extra(reader.take(extra_bytes), label_ + ": zip extra field");
    reader.take(comment_bytes);
    while (extra.remaining() >= 4) {
      const auto id = extra.read<std::uint16_t>();
      ByteReader field(extra.take(extra.read<std::uint16_t>()), label_ + ": zip64 field");
      if (id != 1) continue;
      // Only the numbers that did not fit are here, in this order.
      for (std::uint64_t* number : {&entry.size, &packed, &entry.header})
        if (*number == 0xffffffff) *number = field.read<std::uint64_t>();
    }
    if (entry.method == 0 && packed != entry.size)
      corrupt("entry " + printable(name) + " is stored in another size than its own");
    if (!entries_.emplace(name, entry).second)
      corrupt("holds the entry " + printable(name) + " twice");
  }
  if (reader.remaining() != 0) corrupt("directory holds more than it declares");
}

std::span<const std::byte> ZipArchive::read(const std::string& name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) corrupt("lacks the entry " + printable(name));
  const Entry& entry = at->second;
  const std::string what = label_ + ": zip entry " + printable(name);
  if (entry.method != 0 || (entry.flags & 1) != 0)
    throw Error(Errc::kUnsupported, what + (entry.method ? " is compressed" : " is encrypted") +
                                        ", torch.save stores them plain");
  if (entry.header > directory_) corrupt("entry " + printable(name) + " lies outside the file");
  ByteReader reader(bytes_.subspan(entry.header, directory_ - entry.header), what);
  if (reader.read<std::uint32_t>() != kLocal)
    corrupt("entry " + printable(name) + " has no local header");
  reader.take(22);
  const auto name_bytes = reader.read<std::uint16_t>();
  const auto extra_bytes = reader.read<std::uint16_t>();
  if (as_text(reader.take(name_bytes)) != name)
    corrupt("entry " + printable(name) + " has another name in its local header");
  reader.take(extra_bytes);
  const auto data = reader.take(entry.size);
  if (crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()) != entry.crc)
    corrupt("entry " + printable(name) + " is damaged: its CRC-32 differs");
  return data;
}

}  // namespace gbcompress
