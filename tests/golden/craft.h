#pragma once
/// Artifacts made by hand: any header, any sections, lengths and digests that fit.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress::craft {

using Bytes = std::vector<std::byte>;

Bytes to_bytes(const std::string& text);
Bytes join(Bytes a, const Bytes& b);
/// Seven bits a byte, the lowest first.
Bytes varint(std::uint64_t value);
/// A file around what follows its length, with the digest that fits.
Bytes around(const Bytes& body, const std::string& magic = "GBZ2");
/// A file around a header of any bytes. @param header_raw  unpacked size, 0: it is not packed
Bytes file(const Bytes& header, const Bytes& sections, std::uint64_t header_raw = 0,
           const std::string& magic = "GBZ2");
/// A file around a header that is written as CBOR.
Bytes file(const nlohmann::json& header, const Bytes& sections);

/// Header entries: a plain U8 tensor and an int8 linear tensor of 4 x 4, with their sections.
nlohmann::json plain_entry(const std::string& name, const Bytes& section);
nlohmann::json linear_entry(const std::string& name);
Bytes linear_section();
/// {"t": entries}
nlohmann::json header(std::vector<nlohmann::json> entries);

/// Where a file's parts lie.
struct Parts {
  Bytes header, sections;
  std::uint64_t header_raw = 0;
};
Parts parts(const Bytes& file);

struct BadFile {
  std::string name;  ///< of the file in tests/golden/errors, without .gbz
  Errc code;
  Bytes bytes;
};
/// Each is wrong in one way and right in every other; opening or verifying it gives `code`.
std::vector<BadFile> bad_files();

/// Those among them with integers.
std::vector<BadFile> bad_coded_files();

/// Opens and verifies; kFailure where nothing is wrong.
Errc code_of(const Bytes& bytes);

}  // namespace gbcompress::craft
