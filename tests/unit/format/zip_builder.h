#pragma once
/// Stored zip files for tests, with every field open to mischief.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gbcompress::testing {

template <typename T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct ZipEntry {
  std::string name, data;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t crc_error = 0;   ///< xor-ed into the CRC-32
  std::string local_name = "=";  ///< "=" for the same
};

/// @param wide  write zip64 records and extra fields although nothing needs them
inline std::string zip(const std::vector<ZipEntry>& entries, bool wide = false,
                       const std::string& comment = "") {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const auto offset = file.size();
    const auto crc = static_cast<std::uint32_t>(::crc32_z(
                         0, reinterpret_cast<const Bytef*>(entry.data.data()), entry.data.size())) ^
                     entry.crc_error;
    const auto size = static_cast<std::uint32_t>(entry.data.size());
    const std::string local = entry.local_name == "=" ? entry.name : entry.local_name;
    const std::string common = le(entry.flags) + le(entry.method) + le(std::uint32_t{0}) + le(crc);
    const auto length = [](const std::string& text) {
      return le(static_cast<std::uint16_t>(text.size()));
    };
    file += "PK\x03\x04" + le(std::uint16_t{20}) + common + le(size) + le(size) + length(local) +
            le(std::uint16_t{3}) + local + "pad" + entry.data;
    const std::uint32_t full = 0xffffffff;
    const std::string extra = wide
                                  ? "\x07\x07" + le(std::uint16_t{1}) + "z" + le(std::uint16_t{1}) +
                                        le(std::uint16_t{24}) + le(std::uint64_t{size}) +
                                        le(std::uint64_t{size}) + le(std::uint64_t{offset})
                                  : "";
    directory += "PK\x01\x02" + le(std::uint32_t{20}) + common + le(wide ? full : size) +
                 le(wide ? full : size) + length(entry.name) + length(extra) +
                 le(std::uint16_t{0}) + le(std::uint64_t{0}) +
                 le(wide ? full : static_cast<std::uint32_t>(offset)) + entry.name + extra;
  }
  const std::uint64_t at = file.size(), size = directory.size(), count = entries.size();
  file += directory;
  if (wide)
    file += "PK\x06\x06" + le(std::uint64_t{44}) + le(std::uint32_t{45}) + le(std::uint64_t{0}) +
            le(count) + le(count) + le(size) + le(at) + "PK\x06\x07" + le(std::uint32_t{0}) +
            le(at + size) + le(std::uint32_t{1});
  const auto short_count = static_cast<std::uint16_t>(wide ? 0xffff : count);
  return file + "PK\x05\x06" + le(std::uint32_t{0}) + le(short_count) + le(short_count) +
         le(static_cast<std::uint32_t>(wide ? 0xffffffff : size)) +
         le(static_cast<std::uint32_t>(wide ? 0xffffffff : at)) +
         le(static_cast<std::uint16_t>(comment.size())) + comment;
}

}  // namespace gbcompress::testing
